/* ctl/plot_options.h -- the command lines of `mtctl plot` and `mtctl compare`. Two programs read
 * them: mtctl, which draws in the terminal and prints tables, and mtctl-plot, which draws pictures.
 * One thread may call. */
#ifndef MT_CTL_PLOT_OPTIONS_H
#define MT_CTL_PLOT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_COMPARISON_MAX 12u

struct mt_plot_size {
	double width, height; /* pixels; 0: as needed */
};

struct mt_plot_options {
	const char *source; /* the operand: a file, or a process */
	const char *path;   /* the picture; NULL: none */
	const char *title;  /* NULL: the command */
	struct mt_plot_size size;
	double since_s, last_s; /* shown from this time on; of that the last part; 0: all */
	uint64_t pid;           /* 0: all processes of the recording */
	bool gpu, clock, no_clock;
};

struct mt_compare_options {
	char **files;
	size_t files_count; /* 1 to MT_COMPARISON_MAX */
	const char *path;   /* the picture; NULL: none */
	const char *title;  /* NULL: the names of the runs */
	struct mt_plot_size size;
	const char *labels[MT_COMPARISON_MAX]; /* NULL: the name of the file */
	size_t labels_count;
	bool json;
};

/* Return true if the command is to run. Return false if it has ended, with the exit code in
 * *out_code: --help, or a wrong use, which is on stderr. `out` and what it points to are valid as
 * long as argv. */
bool mt_plot_options_read(int argc, char **argv, struct mt_plot_options *out, int *out_code);
bool mt_compare_options_read(int argc, char **argv, struct mt_compare_options *out, int *out_code);

#endif
