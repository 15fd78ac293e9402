/* ctl/metrics/recording_source.h -- what a word of the command line names: a file with a recording,
 * or a running process with its ring of 15 minutes. One thread may call. */
#ifndef MT_CTL_METRICS_RECORDING_SOURCE_H
#define MT_CTL_METRICS_RECORDING_SOURCE_H

#include "ctl/metrics/recording.h"

/* Returns whether the word names a file: it is written as the path of one ("runs/a", "a.jsonl",
 * "a.json"), or one of this name exists that may be a recording. A script in the present directory
 * ("train.py") is none, and names the process that runs it. */
bool mt_recording_is_file(const char *word);

/* Reads the ring of the process of this id or name (mt_target_find), with fresh figures. Returns
 * the exit code, after a message where it is not MT_EXIT_OK. The caller frees with
 * mt_recording_free. */
enum mt_exit mt_recording_of_word(const char *word, struct mt_recording *out);

/* Reads the file or the process that the word names. A file that is valid up to some line is read
 * up to there, with a message. Returns and frees as above. */
enum mt_exit mt_recording_of_source(const char *word, struct mt_recording *out);

#endif
