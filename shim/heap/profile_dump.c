#include "heap/profile_dump.h"

#include "heap/backend.h"
#include "core/publish.h"

#define PATH_BYTES 512

void mt_heap_profile_publish(void)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	uint64_t state = profiler ? (uint64_t)profiler->state() : MT_PROFILER_NONE;

	mt_publish_lock()->prof_state = state;
	mt_publish_unlock();
}

enum mt_err mt_heap_profile_follow(const struct mt_config *wanted)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;

	return profiler ? profiler->sample(wanted->prof == MT_PROF_ON) : MT_ERR_NOT_AVAILABLE;
}

enum mt_err mt_heap_profile_classes(void)
{
	struct mt_heap_class found[MT_CLASSES_COUNT];
	struct mt_stats_class table[MT_CLASSES_COUNT];
	uint32_t count;

	if (!mt_backend()->classes)
		return MT_ERR_NOT_AVAILABLE;
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

	if (answer == MT_ERR_OK)
		answer = mt_publish_begin_dump(path, sizeof(path));
	if (answer != MT_ERR_OK)
		return answer;
	answer = profiler->dump(path);
	placed = mt_publish_end_dump(MT_DUMP_HEAP, answer == MT_ERR_OK);
	return answer != MT_ERR_OK ? answer : placed;
}
