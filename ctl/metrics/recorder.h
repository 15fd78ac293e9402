/* ctl/metrics/recorder.h -- watches processes and writes down what they hold: the lines of `mtctl
 * record` (docs/mtctl.md has the format). Resident memory comes from the kernel, all else from the
 * process, which is asked for fresh figures: an old figure beside a new one would show live memory
 * above RSS. One that does not answer within a part of the interval is taken at its last word for a
 * second, and then not at all. Its memory grows with the processes that it watches, and with
 * nothing else. */
#ifndef MT_CTL_METRICS_RECORDER_H
#define MT_CTL_METRICS_RECORDER_H

#include "ctl/metrics/recorder_lines.h"
#include "ctl/output/json_lines.h"
#include "ctl/process/launch.h"

struct mt_recorder;

/* Writes the header. `lines` stays the caller's. Never NULL. */
struct mt_recorder *mt_recorder_make(const struct mt_process *root,
				     const struct mt_recorder_options *options,
				     struct mt_json_lines *lines);

/* A sample of each process. False: the first one is gone. */
bool mt_recorder_sample(struct mt_recorder *recorder);

/* Cleanups, rounds and pressure since the last look: between samples, so that the ring of cleanups
 * does not run over. False: the first one is gone. */
bool mt_recorder_look(struct mt_recorder *recorder);

/* The last line, of the process that was started or looked at: how it ended. Frees. */
void mt_recorder_end(struct mt_recorder *recorder, const struct mt_launch *launch);

#endif
