#include "heap/profile_dump.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "heap/backend.h"
#include "core/publish.h"
#include "core/thread.h"
#include "sys/attr.h"
#include "sys/os.h"

#define PATH_BYTES  512
#define LOOKS_COUNT 8

/* A look of mtctl for which the profiler samples. mtctl may be killed, so each has its end. */
static struct look {
	uint64_t number;
	uint64_t until_ns; /* CLOCK_MONOTONIC; 0: an empty row */
} looks[LOOKS_COUNT];

/* Whether the profiler samples when no look wants it: as it did before the first one, or as MT_PROF
 * has been set since. */
static bool samples_without;

void mt_heap_profile_publish(void)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	uint64_t state = profiler ? (uint64_t)profiler->state() : MT_PROFILER_NONE;

	mt_assert(mt_thread_is_ours());
	mt_publish_lock()->prof_state = state;
	mt_publish_unlock();
}

/* ---- on and off ---- */

static bool has_look(void)
{
	for (size_t i = 0; i < LOOKS_COUNT; i++)
		if (looks[i].until_ns)
			return true;
	return false;
}

enum mt_err mt_heap_profile_follow(const struct mt_config *wanted)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	bool on = wanted->prof == MT_PROF_ON;
	enum mt_err error = profiler ? profiler->sample(on || has_look()) : MT_ERR_NOT_AVAILABLE;

	if (error == MT_ERR_OK)
		samples_without = on;
	return error;
}

/* The row of a look, an empty one, or that of the look which ends first. */
static struct look *find_look(uint64_t number)
{
	struct look *found = &looks[0];

	for (size_t i = 0; i < LOOKS_COUNT; i++) {
		if (looks[i].until_ns && looks[i].number == number)
			return &looks[i];
		if (looks[i].until_ns < found->until_ns)
			found = &looks[i];
	}
	return found;
}

static enum mt_err begin_look(uint64_t number, uint64_t until_ns)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	struct look *look = find_look(number);
	enum mt_err error = MT_ERR_OK;

	mt_assert(mt_thread_is_ours() && until_ns);
	if (!has_look()) {
		samples_without = profiler->state() == MT_PROFILER_SAMPLES;
		error = samples_without ? MT_ERR_OK : profiler->sample(true);
	}
	if (error == MT_ERR_OK)
		*look = (struct look){.number = number, .until_ns = until_ns};
	return error;
}

static void end_look(struct look *look)
{
	mt_assert(look >= looks && look < looks + LOOKS_COUNT);
	*look = (struct look){0};
	if (!has_look())
		(void)mt_backend()->profiler->sample(samples_without);
}

enum mt_err mt_heap_profile_look(const struct mt_request *request)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	const char *space = strchr(request->value, ' ');
	uint64_t number = mt_os_parse_number(request->value);
	uint64_t ms = space ? mt_os_parse_number(space) : 0;
	struct look *look = find_look(number);

	if (!profiler || profiler->state() == MT_PROFILER_NONE)
		return MT_ERR_NOT_AVAILABLE;
	if (!space)
		return MT_ERR_INVALID;
	if (ms > MT_SAMPLE_MS_MAX)
		return MT_ERR_RANGE;
	if (ms)
		return begin_look(number, mt_os_now_ns() + ms * MT_NS_PER_MS);
	if (look->until_ns && look->number == number)
		end_look(look);
	return MT_ERR_OK;
}

uint64_t mt_heap_profile_tick(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	mt_assert(mt_thread_is_ours());
	for (size_t i = 0; i < LOOKS_COUNT; i++) {
		if (looks[i].until_ns && looks[i].until_ns <= now_ns)
			end_look(&looks[i]);
		if (looks[i].until_ns && looks[i].until_ns < next_ns)
			next_ns = looks[i].until_ns;
	}
	return next_ns;
}

/* ---- what is written ---- */

enum mt_err mt_heap_profile_classes(void)
{
	struct mt_heap_class found[MT_CLASSES_COUNT];
	struct mt_stats_class table[MT_CLASSES_COUNT];
	uint32_t count;

	if (!mt_backend()->classes)
		return MT_ERR_NOT_AVAILABLE;
	mt_assert(mt_thread_is_ours());
	count = mt_backend()->classes(found, MT_CLASSES_COUNT);
	for (uint32_t i = 0; i < count; i++)
		table[i] = (struct mt_stats_class){.block_bytes = found[i].block_bytes,
						   .live_count = found[i].live_count};
	mt_publish_set_classes(table, count);
	return MT_ERR_OK;
}

enum mt_err mt_heap_profile_profile(void)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	char path[PATH_BYTES];
	enum mt_err answer = profiler && profiler->state() != MT_PROFILER_NONE
				     ? MT_ERR_OK
				     : MT_ERR_NOT_AVAILABLE;
	enum mt_err placed;

	mt_assert(mt_thread_is_ours());
	if (answer == MT_ERR_OK)
		answer = mt_publish_begin_dump(path, sizeof(path));
	if (answer != MT_ERR_OK)
		return answer;
	answer = profiler->dump(path);
	placed = mt_publish_end_dump(MT_DUMP_HEAP, answer == MT_ERR_OK);
	return answer != MT_ERR_OK ? answer : placed;
}
