/* ctl/profile/lines.h -- the Python lines that allocate what grows, from a look with tracemalloc in
 * the process: by the shim (shim/python/lines.c), and in a process without it by Python itself
 * (ctl/process/remote_python.h). A line is that of the program itself: the innermost frame that
 * lies in no library; if there is none, the innermost frame. For one thread. */
#ifndef MT_CTL_PROFILE_LINES_H
#define MT_CTL_PROFILE_LINES_H

#include <signal.h>

#include "core/dump_layout.h"
#include "ctl/output/error.h"
#include "ctl/process/process.h"
#include "ctl/profile/sites.h"

/* ---- the file of lines ---- */

/* Reads the file of a look at a process's Python lines
 * (core/dump_layout.h). The file is not trusted: magic, version, sizes, checksums, and each index
 * in it are checked. One thread may call. */

/* Bytes and counts above it are not valid: sums of all stacks then fit into 63 bits. */
#define MT_LINES_FILE_BYTES_MAX ((uint64_t)1 << 47)

struct mt_lines_file {
	struct mt_lines_head head;
	/* NULL if the outcome is not MT_LINES_DONE */
	struct mt_lines_stack *stacks;
	struct mt_lines_frame *frames;
	char *names; /* each is printable, and ends with NUL */
	void *content;
};

/* ---- lines ---- */

struct mt_line {
	const char *file;
	uint32_t line;
	uint64_t bytes, count;            /* live at the end */
	uint64_t each[MT_LINES_READINGS]; /* bytes at each reading */
	/* since the first reading; negative: less is live now */
	int64_t growth_bytes, growth_count;
	/* it was more in each of the later readings than in any of the earlier ones */
	bool is_steady;
	const struct mt_lines_stack *stack; /* the one that has grown most */
};

struct mt_lines {
	struct mt_lines_file file;
	struct mt_line *list; /* steady growth first, the largest first */
	size_t count;
	uint64_t bytes, blocks_count; /* of all lines */
	int64_t growth_bytes;
	/* the time that the growth is of */
	uint64_t growth_ns;
};

struct mt_lines_options {
	uint64_t for_ms; /* 1 to MT_LINES_MS_MAX */
	uint32_t depth;  /* frames of a stack, 1 to MT_LINES_DEPTH_MAX */
	/* not 0: end the look now, with what is known; NULL: never */
	const volatile sig_atomic_t *stop;
	/* called when the look has begun, and before it if there is no shim. is_own: it only
	 * reads what the program's own tracemalloc holds; NULL: nobody */
	void (*begun)(const struct mt_process *process, const struct mt_lines_options *options,
		      bool is_own);
};

/* Has the process looked at, waits for the end, and fills *out. The process ends the look by itself
 * if the caller ends. Returns MT_ERR_TIMEOUT if its main thread did not run Python,
 * MT_ERR_NOT_AVAILABLE if tracemalloc cannot be used, each with the reason. The caller frees
 * with mt_lines_free. */
enum mt_err mt_lines_collect(const struct mt_process *process,
			     const struct mt_lines_options *options, struct mt_lines *out,
			     struct mt_error_reason *why);
void mt_lines_free(struct mt_lines *lines);

/* The look that accompanies a diagnosis of so many seconds: as long again, up to 60 s, and its cost
 * said on stderr. */
enum mt_err mt_lines_collect_beside(const struct mt_process *process, double seconds,
				    const volatile sig_atomic_t *stop, struct mt_lines *out,
				    struct mt_error_reason *why);

/* Whether a file name is the program's own: neither a package's, nor the standard library's, nor
 * code without a file; and whether it is such code, as of python -c. */
bool mt_lines_is_own(const char *name);
bool mt_lines_is_typed_in(const char *name);

/* Returns the name of the file of a frame. */
const char *mt_lines_name(const struct mt_lines *lines, const struct mt_lines_frame *frame);

/* Says on stderr what the look costs the process, for `begun`. */
void mt_lines_say_cost(const struct mt_process *process, const struct mt_lines_options *options,
		       bool is_own);

void mt_lines_print_table(const struct mt_lines *lines, const struct mt_sites_view *view);
/* Returns the object of `mtctl sites --python --json`. The caller owns it. */
json_t *mt_lines_json(const struct mt_lines *lines, const struct mt_sites_view *view);

#endif
