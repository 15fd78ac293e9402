/* ctl/metrics/recorder_lines.h -- the lines of a recording, one function for each kind; who is
 * watched, and what was seen of him. For recorder.c alone. */
#ifndef MT_CTL_METRICS_RECORDER_LINES_H
#define MT_CTL_METRICS_RECORDER_LINES_H

#include <jansson.h>

#include "ctl/process/target.h"

#define MT_RECORDER_FORMAT  "mtshim-recording"
#define MT_RECORDER_VERSION 1

struct mt_recorder_options {
	uint64_t interval_ns;
	/* all shimmed processes below the first as well; without `shim` all processes */
	bool tree;
	bool shim;    /* read stats files; else /proc is all there is */
	bool started; /* we have started the program, and know how it ends */
};

enum mt_watched_state {
	MT_WATCHED_NEW,
	MT_WATCHED_PLAIN, /* without the shim, or it is not to be asked */
	MT_WATCHED_ASLEEP,
	MT_WATCHED_AWAKE,
	MT_WATCHED_REFUSED,
	MT_WATCHED_STATES_COUNT
};

struct mt_watched {
	struct mt_process process;
	enum mt_watched_state state; /* as the last process line has it */
	/* than the recording, and its counters have not been read yet */
	bool is_older;
	uint32_t devices_count;
	uint32_t silent_count; /* so many samples in a row it has not answered */
	uint64_t looks;        /* of its name and arguments */
	uint64_t looked_count; /* since it has looked like this */
	uint64_t records_seen, rounds_seen, pressure_level;
	uint64_t said_ns; /* the time of the figures that those are from */
};

/* When the process started, CLOCK_REALTIME, to about 10 ms. */
uint64_t mt_recorder_start_ns(const struct mt_process *process);

/* A number that changes when a process calls itself otherwise, or becomes another program. */
uint64_t mt_recorder_looks(pid_t pid);

/* {"kind": KIND, "time_ns": ..., "pid": ...}; the caller adds the rest. */
json_t *mt_recorder_line(const char *kind, pid_t pid, uint64_t time_ns);

json_t *mt_recorder_header(const struct mt_process *root, const struct mt_recorder_options *options,
			   uint64_t now_ns);

/* `file` is read where the process is awake; `why` is "" or why its file is refused. */
json_t *mt_recorder_process_line(const struct mt_watched *watched, const struct mt_stats_file *file,
				 const char *why, uint64_t now_ns);

/* NULL: it holds nothing any more. `file` NULL: nothing is known but what the kernel says. */
json_t *mt_recorder_sample_line(const struct mt_watched *watched, const struct mt_stats_file *file,
				uint64_t now_ns);

#endif
