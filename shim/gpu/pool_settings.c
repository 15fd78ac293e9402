#include "gpu/pool_settings.h"

#include <string.h>

#include "sys/attr.h"
#include "sys/os.h"
#include "sys/format.h"

#define SHOWN_MAX 60

struct word {
	const char *at;
	size_t length;
};

struct pair {
	struct word name, value;
};

static const char *const meaningless[] = {
	"expandable_segments",
	"backend",
	"release_lock_on_cudamalloc",
	"release_lock_on_hipmalloc",
	"pinned_use_cuda_host_register",
	"pinned_use_hip_host_register",
	"pinned_num_register_threads",
	"pinned_use_background_threads",
	"pinned_reserve_segment_size_mb",
	"pinned_max_register_threads",
	"graph_capture_record_stream_reuse",
	"max_non_split_rounding_mb",
	"large_segment_size_mb",
	"per_process_memory_fraction",
	"throw_on_cudamalloc_oom",
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct word trimmed(const char *from, const char *end)
{
	while (from < end && is_space(*from))
		from++;
	while (end > from && is_space(end[-1]))
		end--;
	return (struct word){from, (size_t)(end - from)};
}

static bool is_word(struct word word, const char *text)
{
	return word.length == strlen(text) && memcmp(word.at, text, word.length) == 0;
}

/* The text may come from anywhere: it must stay on its line and not control a terminal. */
static void show(struct word word, char out[SHOWN_MAX + 1])
{
	size_t length = word.length < SHOWN_MAX ? word.length : SHOWN_MAX;

	for (size_t i = 0; i < length; i++)
		out[i] = word.at[i] >= ' ' && word.at[i] <= '~' ? word.at[i] : '?';
	out[length] = '\0';
}

static bool whole_number(struct word word, uint64_t *out)
{
	uint64_t value = 0;

	if (word.length == 0 || word.length > 12)
		return false;
	for (size_t i = 0; i < word.length; i++) {
		if (word.at[i] < '0' || word.at[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(word.at[i] - '0');
	}
	*out = value;
	return true;
}

static bool is_divisions(uint64_t value)
{
	return value <= 64 && (value & (value - 1)) == 0;
}

/* Parses one SIZE:DIVISIONS of a list: for the sizes from *step on that are under SIZE MB; for >
 * all the rest. */
static bool set_step(struct word entry, uint32_t *step, uint8_t divisions[MT_POOL_ROUNDUPS])
{
	const char *colon = memchr(entry.at, ':', entry.length);
	struct word size = trimmed(entry.at, colon ? colon : entry.at);
	uint64_t mb, value;
	uint32_t end = MT_POOL_ROUNDUPS;

	if (!colon || !whole_number(trimmed(colon + 1, entry.at + entry.length), &value) ||
	    !is_divisions(value))
		return false;
	if (!is_word(size, ">")) {
		if (!whole_number(size, &mb) || mb == 0 || (mb & (mb - 1)) != 0)
			return false;
		end = 64 - (uint32_t)__builtin_clzll(mb);
	}
	if (end <= *step)
		return false;
	for (; *step < end && *step < MT_POOL_ROUNDUPS; (*step)++)
		divisions[*step] = (uint8_t)value;
	return true;
}

/* [256:1,512:2,>:4] */
static bool set_steps(struct word list, uint8_t divisions[MT_POOL_ROUNDUPS])
{
	const char *at = list.at + 1, *end = list.at + list.length - 1;
	uint32_t step = 0;

	if (list.length < 2 || *end != ']')
		return false;
	while (at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));

		if (!set_step(trimmed(at, comma ? comma : end), &step, divisions))
			return false;
		at = comma ? comma + 1 : end;
	}
	return step > 0;
}

static bool set_divisions(struct word value, struct mt_pool_settings *settings)
{
	uint8_t divisions[MT_POOL_ROUNDUPS] = {0};
	uint64_t all;

	if (value.length > 0 && value.at[0] == '[') {
		if (!set_steps(value, divisions))
			return false;
	} else if (whole_number(value, &all) && is_divisions(all)) {
		memset(divisions, (int)all, sizeof(divisions));
	} else {
		return false;
	}
	memcpy(settings->roundup_divisions, divisions, sizeof(divisions));
	return true;
}

static bool set_max_split(struct word value, struct mt_pool_settings *settings)
{
	uint64_t mb;

	if (!whole_number(value, &mb) || mb <= 20)
		return false;
	settings->max_split_bytes = mb > UINT64_MAX / MT_MIB ? UINT64_MAX : mb * MT_MIB;
	return true;
}

/* A decimal fraction between 0 and 1; no strtod: it reads the locale. */
static bool set_threshold(struct word value, struct mt_pool_settings *settings)
{
	double result = 0, unit = 0.1;
	size_t i = value.length > 0 && value.at[0] == '0' ? 1 : 0;

	if (i >= value.length || value.at[i++] != '.' || i == value.length)
		return false;
	for (; i < value.length; i++, unit /= 10) {
		if (value.at[i] < '0' || value.at[i] > '9')
			return false;
		result += unit * (value.at[i] - '0');
	}
	if (result <= 0 || result >= 1)
		return false;
	settings->gc_threshold = result;
	return true;
}

static const struct {
	const char *name, *wanted;
	bool (*set)(struct word value, struct mt_pool_settings *settings);
} understood[] = {
	{"roundup_power2_divisions",
	 "a power of two up to 64, or a list of them by size in MB, as [256:1,512:2,>:4]",
	 set_divisions},
	{"max_split_size_mb", "a whole number above 20", set_max_split},
	{"garbage_collection_threshold", "a fraction between 0 and 1", set_threshold},
};

static void say(void (*report)(const char *line), struct pair pair, const char *what,
		const char *wanted)
{
	char name[SHOWN_MAX + 1], value[SHOWN_MAX + 1], line[384];

	show(pair.name, name);
	show(pair.value, value);
	(void)mt_format(line, sizeof(line), "MT_CUDA_CONF: %s:%s: %s%s", name, value, what, wanted);
	report(line);
}

static void take(struct pair pair, struct mt_pool_settings *settings,
		 void (*report)(const char *line))
{
	for (size_t i = 0; i < sizeof(understood) / sizeof(understood[0]); i++) {
		if (!is_word(pair.name, understood[i].name))
			continue;
		if (!understood[i].set(pair.value, settings))
			say(report, pair, "left out, it is not ", understood[i].wanted);
		return;
	}
	for (size_t i = 0; i < sizeof(meaningless) / sizeof(meaningless[0]); i++) {
		if (is_word(pair.name, meaningless[i])) {
			say(report, pair, "has no meaning for this pool", "");
			return;
		}
	}
	say(report, pair, "no such setting", "");
}

/* A comma outside brackets ends a pair. */
static const char *end_of_pair(const char *at)
{
	int depth = 0;

	for (; *at != '\0' && (*at != ',' || depth > 0); at++)
		depth += *at == '[' ? 1 : *at == ']' && depth > 0 ? -1 : 0;
	return at;
}

MT_COLD void mt_pool_settings_parse(const char *text, struct mt_pool_settings *settings,
				    void (*report)(const char *line))
{
	while (*text != '\0') {
		const char *end = end_of_pair(text);
		const char *colon = memchr(text, ':', (size_t)(end - text));
		struct pair pair = {trimmed(text, colon ? colon : end),
				    trimmed(colon ? colon + 1 : end, end)};

		if (pair.name.length > 0 || pair.value.length > 0)
			take(pair, settings, report);
		text = *end == ',' ? end + 1 : end;
	}
}
