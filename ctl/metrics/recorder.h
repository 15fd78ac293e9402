/* ctl/metrics/recorder.h -- records processes: writes the lines of `mtctl record`.
 * docs/mtctl/record.md has the format. Resident memory comes from the kernel, other figures from
 * the process, which is asked to publish first: live bytes of an older time would exceed RSS. If it
 * does not publish within a part of the interval, its last figures are used for a second, and none
 * after that. Memory grows only with the number of recorded processes. For one thread. */
#ifndef MT_CTL_METRICS_RECORDER_H
#define MT_CTL_METRICS_RECORDER_H

#include <jansson.h>

#include "ctl/channel/target.h"
#include "ctl/output/json.h"
#include "ctl/process/start_command.h"

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

struct mt_recorder;

/* Starts a recording and writes its header. `lines` must outlive the recorder. Never returns NULL.
 */
struct mt_recorder *mt_recorder_make(const struct mt_process *root,
				     const struct mt_recorder_options *options,
				     struct mt_json_lines *lines);

/* Writes a sample of each process. Waits up to half of interval_ns, the time to the next sample,
 * for fresh figures. Returns false if the root has ended. */
bool mt_recorder_sample(struct mt_recorder *recorder, uint64_t interval_ns);

/* Writes new cleanups, rounds and changes of pressure, between samples, so that the ring of
 * cleanups does not overflow. Returns false if the root has ended. */
bool mt_recorder_poll(struct mt_recorder *recorder);

/* Writes the last lines: how each process has ended. Frees. */
void mt_recorder_end(struct mt_recorder *recorder, const struct mt_launch *launch);

#endif
