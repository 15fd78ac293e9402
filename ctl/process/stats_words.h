/* ctl/process/stats_words.h -- words for numbers that a process publishes (core/stats_layout.h). A
 * number that is out of range is "?". Pure: any thread may call. */
#ifndef MT_CTL_PROCESS_STATS_WORDS_H
#define MT_CTL_PROCESS_STATS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/output/text.h"
#include "core/stats_layout.h"

/* Of a cleanup: its reason, its level, the state of Python's garbage collection and of the GPU
 * caches. */
const char *mt_stats_word_reason(uint32_t reason);
const char *mt_stats_word_level(uint32_t level);
const char *mt_stats_word_gc_state(uint32_t state);
const char *mt_stats_word_gpu_state(uint32_t state);

/* Returns the name of a framework whose caches a cleanup can empty ("torch", "cupy", "numba"), with
 * its bit in the frameworks of a cleanup in *out_bit. Returns NULL past the last index. */
const char *mt_stats_word_framework(size_t place, uint32_t *out_bit);

/* Returns whether a cleanup returned 1 MB or more of RSS, of anonymous memory, or of device memory.
 * Single pages are returned at any time. */
bool mt_stats_has_freed(const struct mt_stats_cleanup *cleanup);

/* Returns the result of a cleanup; "freed" only where mt_stats_has_freed. */
const char *mt_stats_word_outcome(const struct mt_stats_cleanup *cleanup);

/* Who receives SIGUSR1: signal_disposition of a snapshot. */
const char *mt_stats_word_disposition(uint64_t disposition);

/* Returns the likely cause in an out-of-memory report. */
const char *mt_stats_word_oom_cause(uint32_t cause);

/* Returns the CUDA version of the driver, "12.8", or "unknown". */
struct mt_short_text mt_stats_word_driver(const struct mt_stats_head *head);

/* Returns the level of pressure, and the name of a bit of pressure_sources ("limit", "stall"); NULL
 * past the last bit. */
const char *mt_stats_word_pressure_level(uint64_t level);
const char *mt_stats_word_pressure_source(size_t bit);

/* Returns the used share of a limit in percent, 0 where the limit is not known. */
double mt_stats_percent(uint64_t used_bytes, uint64_t limit_bytes);

/* Returns why a cleanup was made for pressure, "critical 91.2 %, limit, stall"; "-" for any other
 * cleanup. */
struct mt_short_text mt_stats_word_pressure(const struct mt_stats_cleanup *cleanup);

/* Returns why the process cannot write a heap profile, as a sentence with advice; NULL where it
 * can. */
const char *mt_stats_why_no_profile(const struct mt_stats_head *head);

#endif
