/* ctl/metrics/run.h -- a recorded run in a few figures, and several runs as a table: for record,
 * compare, and the table below a picture. The figures are of all processes of the recording
 * together. Not thread-safe. */
#ifndef MT_CTL_METRICS_RUN_H
#define MT_CTL_METRICS_RUN_H

#include "ctl/metrics/recording.h"
#include "ctl/metrics/series.h"

struct mt_run {
	const struct mt_recording *recording;
	char name[80];
	/* gpu: reserved. rss.end: before the tear-down, if the end was recorded */
	struct mt_series_sums rss, gpu;
	double seconds; /* from the first sample to the end */
	double cpu_s;   /* NAN: not known */
	size_t cleanups_count;
};

/* The part of a recording that a picture shows. */
struct mt_run_part {
	uint64_t pid;           /* 0: all processes */
	double since_s, last_s; /* from this time on; of that the last part; 0: all */
};

/* Sets low and high, in seconds since the first sample. INVALID: nothing is in that part. */
enum mt_err mt_run_find_part(const struct mt_recording *recording, const struct mt_run_part *part,
			     double *low, double *high, struct mt_error_reason *why);

/* Returns the sums of `rss`, the RSS of the processes of a part that begins at `low`. Of the whole
 * run they are those of record and compare: the kernel knows a peak between samples, and the end is
 * that of the work, the median of the last second before the tear-down, if the end was recorded. */
struct mt_series_sums mt_run_sum_up(const struct mt_recording *recording, uint64_t pid, double low,
				    const struct mt_series *rss);

/* Fills in *out. label: its name; NULL: that of the file. The recording must outlive *out. */
void mt_run_of(const struct mt_recording *recording, const char *label, struct mt_run *out);

/* Several runs, with their recordings. */
struct mt_runs {
	struct mt_recording *recordings;
	struct mt_run *list;
	size_t count;
};

/* Reads recordings. labels: NULL, or as many as files, each of which may be NULL. Returns
 * MT_EXIT_OK, or after a message MT_EXIT_USAGE; a file that is valid up to some line is read up to
 * there, with a message. The caller frees with mt_runs_free. */
enum mt_exit mt_runs_read(char **files, size_t count, const char *const *labels,
			  struct mt_runs *out);
void mt_runs_free(struct mt_runs *runs);

/* The figures in which runs are held against the first one: identifier, title, member of `change`
 * in JSON, member of struct mt_run. */
#define MT_RUN_FIGURES(X)                                                                          \
	X(PEAK, "peak RSS", "rss_peak_pct", rss.peak)                                              \
	X(MEAN, "mean RSS", "rss_mean_pct", rss.mean)                                              \
	X(END, "RSS before the end", "rss_end_pct", rss.end)                                       \
	X(GPU, "peak GPU, reserved", "gpu_reserved_peak_pct", gpu.peak)                            \
	X(TIME, "time", "duration_pct", seconds)                                                   \
	X(CPU, "CPU time", "cpu_pct", cpu_s)

enum mt_run_column {
#define X(id, title, change, member) MT_RUN_##id,
	MT_RUN_FIGURES(X) MT_RUN_CLEANUPS,
	MT_RUN_EXIT,
	MT_RUN_COLUMNS
#undef X
};

/* Returns the title of a column: "peak RSS". */
const char *mt_run_title(enum mt_run_column column);

/* Writes the columns that any of the runs has a value for. Returns how many. */
size_t mt_run_columns(const struct mt_run *runs, size_t count, enum mt_run_column *out);

/* Writes a cell: "1.2 GB (-12 %)", with the difference to the first run; NULL: without one. */
void mt_run_cell(const struct mt_run *run, const struct mt_run *first, enum mt_run_column column,
		 char *out, size_t out_bytes);

/* Prints the runs to stdout: a table with a line for each, or one JSON object. */
void mt_run_print_table(const struct mt_run *runs, size_t count);
void mt_run_print_json(const struct mt_run *runs, size_t count);

#endif
