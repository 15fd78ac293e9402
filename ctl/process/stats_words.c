#include "ctl/process/stats_words.h"

#include <stdio.h>
#include <string.h>

#define WORTH_BYTES (UINT64_C(1) << 20)

/* The word of this number, "?" where there is none. */
static const char *word(const char *const *words, size_t count, uint64_t number)
{
	return number < count ? words[number] : "?";
}
#define WORD(words, number) word(words, sizeof(words) / sizeof((words)[0]), number)

const char *mt_stats_word_reason(uint32_t reason)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_REASONS(X)
#undef X
	};

	return WORD(words, reason);
}

const char *mt_stats_word_level(uint32_t level)
{
	static const char *const words[MT_LEVEL_COUNT] = {"purge", "light", "heavy"};

	return WORD(words, level);
}

static bool fell(uint64_t before, uint64_t after)
{
	return before > after && before - after >= WORTH_BYTES;
}

bool mt_stats_has_freed(const struct mt_stats_cleanup *cleanup)
{
	return cleanup->result == 1 &&
	       (fell(cleanup->rss_before_bytes, cleanup->rss_after_bytes) ||
		fell(cleanup->anon_before_bytes, cleanup->anon_after_bytes) ||
		fell(cleanup->gpu_before_bytes, cleanup->gpu_after_bytes) ||
		fell(cleanup->pinned_before_bytes, cleanup->pinned_after_bytes));
}

const char *mt_stats_word_outcome(const struct mt_stats_cleanup *cleanup)
{
	static const char *const words[] = {"nothing to free", "freed less than 1 MB",
					    "nothing could be trimmed"};

	if (mt_stats_has_freed(cleanup))
		return "freed";
	return cleanup->result <= MT_NULL_RESULT ? words[cleanup->result] : "?";
}

const char *mt_stats_word_gc_state(uint32_t state)
{
	static const char *const words[MT_GC_COUNT] = {
#define X(name, text) text,
		MT_GC_STATES(X)
#undef X
	};

	return WORD(words, state);
}

const char *mt_stats_word_disposition(uint64_t disposition)
{
	static const char *const words[] = {"none", "ours",    "passed on",
					    "lost", "ignored", "the program's alone"};

	return WORD(words, disposition);
}

const char *mt_stats_word_gpu_state(uint32_t state)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_GPU_STATES(X)
#undef X
	};

	return WORD(words, state);
}

const char *mt_stats_word_oom_cause(uint32_t cause)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_OOM_CAUSES(X)
#undef X
	};

	return WORD(words, cause);
}

const char *mt_stats_word_pressure_level(uint64_t level)
{
	static const char *const words[MT_PRESSURE_LEVEL_COUNT] = {"none", "warn", "critical"};

	return WORD(words, level);
}

const char *mt_stats_word_pressure_source(size_t bit)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_PRESSURE_SOURCES(X)
#undef X
	};

	return bit < MT_PRESSURE_SOURCE_COUNT ? words[bit] : NULL;
}

const char *mt_stats_word_framework(size_t place, uint32_t *out_bit)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} frameworks[] = {{MT_FRAMEWORK_TORCH, "torch"},
			  {MT_FRAMEWORK_CUPY, "cupy"},
			  {MT_FRAMEWORK_NUMBA, "numba"}};

	if (place >= sizeof(frameworks) / sizeof(frameworks[0]))
		return NULL;
	*out_bit = frameworks[place].bit;
	return frameworks[place].word;
}

struct mt_short_text mt_stats_word_driver(const struct mt_stats_head *head)
{
	struct mt_short_text result = {"unknown"};

	if (head->driver_version)
		snprintf(result.text, sizeof(result.text), "%u.%u", head->driver_version / 1000,
			 head->driver_version % 1000 / 10);
	return result;
}

double mt_stats_percent(uint64_t used_bytes, uint64_t limit_bytes)
{
	return limit_bytes ? 100.0 * (double)used_bytes / (double)limit_bytes : 0;
}

struct mt_short_text mt_stats_word_pressure(const struct mt_stats_cleanup *cleanup)
{
	struct mt_short_text text = {"-"};
	const char *word;
	size_t used;

	if (!cleanup->pressure_sources)
		return text;
	used = (size_t)snprintf(text.text, sizeof(text.text), "%s",
				mt_stats_word_pressure_level(cleanup->pressure_level));
	if (cleanup->pressure_limit_bytes)
		used += (size_t)snprintf(text.text + used, sizeof(text.text) - used, " %.1f %%",
					 mt_stats_percent(cleanup->pressure_used_bytes,
							  cleanup->pressure_limit_bytes));
	for (size_t bit = 0;
	     used < sizeof(text.text) && (word = mt_stats_word_pressure_source(bit)); bit++)
		if (cleanup->pressure_sources & (1u << bit))
			used += (size_t)snprintf(text.text + used, sizeof(text.text) - used, ", %s",
						 word);
	return text;
}

/* ---- the profile ---- */

const char *mt_stats_why_no_profile(const struct mt_stats_head *head)
{
	if (head->snapshot.prof_state)
		return NULL;
	if (strcmp(head->mode, "jemalloc") != 0)
		return "the allocator in use has no heap profiler; start the program with "
		       "MT_PROF=1 and MT_ALLOCATOR=jemalloc";
	return "its heap profiler was not made ready; start the program with MT_PROF=1";
}
