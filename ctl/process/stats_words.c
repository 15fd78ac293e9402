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

/* ---- what is known ---- */

bool mt_stats_knows_field(const struct mt_stats_snapshot *now, const char *name)
{
	/* a figure is known where the other one is not 0 */
	const struct {
		const char *name;
		uint64_t known;
	} rules[] = {
		{"pressure_used_bytes", now->pressure_limit_bytes},
		{"pressure_limit_bytes", now->pressure_limit_bytes},
		{"gpu_process_bytes", now->gpu_process_known},
		{"gpu_unattributed_bytes", now->gpu_process_known},
		{"gpu_free_bytes", now->gpu_total_bytes},
		{"gpu_total_bytes", now->gpu_total_bytes},
		{"python_blocks_count", now->python_blocks_count},
		{"framework_reserved_bytes", now->framework_reserved_bytes},
		{"framework_allocated_bytes", now->framework_reserved_bytes},
		{"gc_rounds_step", now->gc_rounds_step},
		{"rss_limit_bytes", now->rss_limit_bytes},
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (strcmp(rules[i].name, name) == 0)
			return rules[i].known != 0;
	return true;
}

bool mt_stats_knows_device_field(const struct mt_stats_device *device, const char *name)
{
	const struct {
		const char *name;
		uint64_t known;
	} rules[] = {
		{"free_bytes", device->free_bytes},
		{"total_bytes", device->total_bytes},
		{"process_bytes", device->process_known},
		{"unattributed_bytes", device->process_known},
		{"others_bytes", device->others_known},
		{"others_count", device->others_known},
		{"nvml_age_ms", device->process_known | device->others_known},
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (strcmp(rules[i].name, name) == 0)
			return rules[i].known != 0;
	return true;
}

/* ---- the profile ---- */

const char *mt_stats_why_no_profile(const struct mt_stats_head *head)
{
	static const char *const texts[2][2] = {
		{"its heap profiler was not made ready; start the program with MT_PROF=on",
		 "--python shows the lines of this Python program without a restart; for stacks of "
		 "C "
		 "start it with MT_PROF=on"},
		{"the allocator in use has no heap profiler; start the program with MT_PROF=on and "
		 "MT_ALLOCATOR=jemalloc",
		 "--python shows the lines of this Python program without a restart; for stacks of "
		 "C "
		 "start it with MT_PROF=on and MT_ALLOCATOR=jemalloc"}};
	bool is_other = strcmp(head->mode, "jemalloc") != 0;

	return head->snapshot.prof_state ? NULL : texts[is_other][*head->python != '\0'];
}
