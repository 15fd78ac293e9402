/* ctl/process/stats_words.h -- words for what a process publishes as numbers (core/stats_layout.h).
 * Every word is a constant; a number that is out of range gives "?". Pure: any thread may call. */
#ifndef MT_CTL_PROCESS_STATS_WORDS_H
#define MT_CTL_PROCESS_STATS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/output/text.h"
#include "core/stats_layout.h"

/* Of a cleanup: why it was made, how thorough it was, what became of Python's gc and of the GPU
 * caches. */
const char *mt_stats_word_reason(uint32_t reason);
const char *mt_stats_word_level(uint32_t level);
const char *mt_stats_word_gc_state(uint32_t state);
const char *mt_stats_word_gpu_state(uint32_t state);

/* "torch", "cupy", "numba": the frameworks whose caches a cleanup can empty. *out_bit: the bit of
 * `place` in the frameworks of a cleanup. NULL past the last. */
const char *mt_stats_word_framework(size_t place, uint32_t *out_bit);

/* Whether a cleanup returned 1 MB or more: of RSS, of its anonymous part, or of the memory of a
 * device. Less says nothing: a page or two go back at any moment. */
bool mt_stats_has_freed(const struct mt_stats_cleanup *cleanup);

/* The result of a cleanup: "freed" only where mt_stats_has_freed. */
const char *mt_stats_word_outcome(const struct mt_stats_cleanup *cleanup);

/* Who receives SIGUSR1: signal_disposition of a snapshot. */
const char *mt_stats_word_disposition(uint64_t disposition);

const char *mt_stats_word_oom_cause(uint32_t cause);

/* The CUDA version of the driver, "12.8", or "unknown". */
struct mt_short_text mt_stats_word_driver(const struct mt_stats_head *head);

/* Pressure: its level, and "limit", "stall", ... for a bit of pressure_sources; NULL past the
 * last. */
const char *mt_stats_word_pressure_level(uint64_t level);
const char *mt_stats_word_pressure_source(size_t bit);

/* The percentage of a limit that is used; 0 where the limit is not known. */
double mt_stats_percent(uint64_t used_bytes, uint64_t limit_bytes);

/* Why a cleanup for pressure was made: "critical 91.2 %, limit, stall"; "-" for any other one. */
struct mt_short_text mt_stats_word_pressure(const struct mt_stats_cleanup *cleanup);

/* Why the process can write no heap profile, as a sentence with what to do; NULL: it can. */
const char *mt_stats_why_no_profile(const struct mt_stats_head *head);

#endif
