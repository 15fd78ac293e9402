/* ctl/metrics/recorder_lines.h -- makes the lines of a recording, one function for each kind. For
 * recorder.c alone. */
#ifndef MT_CTL_METRICS_RECORDER_LINES_H
#define MT_CTL_METRICS_RECORDER_LINES_H

#include <jansson.h>

#include "ctl/process/target.h"

#define MT_RECORDER_FORMAT  "mtshim-recording"
#define MT_RECORDER_VERSION 1

/* Without a fixed interval: bursts at the start are short, and a run of days shall not fill a disk.
 * From a minute to ten minutes the interval is a part of the time so far. */
#define MT_RECORDER_FIRST_NS UINT64_C(100000000)
#define MT_RECORDER_LAST_NS  UINT64_C(1000000000)
#define MT_RECORDER_PART     600u

struct mt_recorder_options {
	/* between samples; 0: MT_RECORDER_FIRST_NS at first, and more as the run grows */
	uint64_t interval_ns;
	/* also the shimmed descendants of the first process; without `shim` all descendants */
	bool tree;
	bool shim;    /* read stats files; else only /proc */
	bool started; /* the program was started by mtctl, which knows its exit status */
};

/* Returns the time to the next sample, since_ns after the first. Pure. */
uint64_t mt_recorder_interval_ns(const struct mt_recorder_options *options, uint64_t since_ns);

enum mt_watched_state {
	MT_WATCHED_NEW,
	MT_WATCHED_PLAIN, /* without the shim, or `shim` is false */
	MT_WATCHED_ASLEEP,
	MT_WATCHED_AWAKE,
	MT_WATCHED_REFUSED,
	MT_WATCHED_STATES_COUNT
};

struct mt_watched {
	struct mt_process process;
	enum mt_watched_state state; /* of the last process line */
	/* older than the recording, with counters that have not been read yet */
	bool is_older;
	uint32_t devices_count;
	uint32_t silent_count; /* samples in a row without a reply */
	uint64_t identity;     /* hash of its name and arguments */
	uint64_t identity_ns;  /* when it was read; CLOCK_MONOTONIC */
	uint64_t same_count;   /* readings with this identity */
	uint64_t records_seen, rounds_seen, pressure_level;
	uint64_t published_ns; /* time_ns of the figures that those are from */
};

/* Returns the start time of the process, CLOCK_REALTIME, to about 10 ms. */
uint64_t mt_recorder_start_ns(const struct mt_process *process);

/* Returns a hash of name and arguments: it changes with prctl(PR_SET_NAME) and exec. */
uint64_t mt_recorder_identity(pid_t pid);

/* {"kind": KIND, "time_ns": ..., "pid": ...}; the caller adds the rest. */
json_t *mt_recorder_line(const char *kind, pid_t pid, uint64_t time_ns);

json_t *mt_recorder_header(const struct mt_process *root, const struct mt_recorder_options *options,
			   uint64_t now_ns);

/* `file` is used where the process is awake; `why` is "" or the reason why its file is refused. */
json_t *mt_recorder_process_line(const struct mt_watched *watched, const struct mt_stats_file *file,
				 const char *why, uint64_t now_ns);

/* Returns NULL where the process has no memory any more. `file` NULL: only the kernel's figures. */
json_t *mt_recorder_sample_line(const struct mt_watched *watched, const struct mt_stats_file *file,
				uint64_t now_ns);

#endif
