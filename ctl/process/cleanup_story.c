#include "ctl/process/cleanup_story.h"

#include <stdio.h>

#include "sys/saturating.h"

static bool waits_for_gc(const struct mt_stats_cleanup *cleanup)
{
	return cleanup->gc_state == MT_GC_LATE || cleanup->gc_state == MT_GC_BLOCKED;
}

/* Gives the late collection to the stories that wait for it. Returns whether there is one. */
static bool resolve(struct mt_cleanup_story *stories, size_t count,
		    const struct mt_stats_cleanup *late)
{
	struct mt_cleanup_story *first = NULL;

	for (size_t i = 0; i < count; i++) {
		if (stories[i].late || !waits_for_gc(stories[i].cleanup))
			continue;
		stories[i].late = late;
		stories[i].has_joined = first != NULL;
		first = first ? first : &stories[i];
	}
	return first != NULL;
}

size_t mt_cleanup_stories(const struct mt_stats_file *file, struct mt_cleanup_story *out)
{
	uint64_t last = file->head.cleanups_count, merged_count = 0,
		 number = last > MT_CLEANUPS_COUNT ? last - MT_CLEANUPS_COUNT : 0;
	size_t count = 0;

	while (number < last) {
		const struct mt_stats_cleanup *cleanup = mt_stats_file_cleanup(file, ++number);

		if (!cleanup)
			continue;
		if (cleanup->merged == 1) {
			merged_count++;
			continue;
		}
		if (cleanup->reason == MT_REASON_LATE_GC && resolve(out, count, cleanup))
			continue;
		out[count++] =
			(struct mt_cleanup_story){.cleanup = cleanup, .merged_count = merged_count};
		merged_count = 0;
	}
	return count;
}

uint64_t mt_cleanup_cost_ns(const struct mt_stats_cleanup *cleanup)
{
	return mt_sat_sub(cleanup->duration_ns, cleanup->gc_wait_ns);
}

static struct mt_short_text late_text(const struct mt_cleanup_story *story)
{
	const struct mt_stats_cleanup *late = story->late;
	double seconds = (double)mt_sat_sub(late->time_ns, story->cleanup->time_ns) / 1e9;
	struct mt_short_text text;

	if (story->has_joined || late->gc_state != MT_GC_DONE)
		snprintf(text.text, sizeof(text.text), "%s %.1f s later",
			 late->gc_state == MT_GC_DONE ? "ran" : "left out", seconds);
	else
		snprintf(text.text, sizeof(text.text), "%.14s objects, %.1f s later, %.14s",
			 mt_text_count(late->gc_collected_count).text, seconds,
			 mt_text_change(late->rss_before_bytes, late->rss_after_bytes).text);
	return text;
}

struct mt_short_text mt_cleanup_gc_text(const struct mt_cleanup_story *story)
{
	static const char *const words[MT_GC_COUNT] = {
		[MT_GC_NONE] = "-",
		[MT_GC_DISABLED] = "disabled by the program",
		[MT_GC_LATE] = "waits: main thread runs C code",
		[MT_GC_BLOCKED] = "waits: main thread in a system call",
		[MT_GC_SHARED] = "left out: would copy shared pages"};
	struct mt_short_text text;
	uint32_t state = story->cleanup->gc_state;

	if (story->late)
		return late_text(story);
	if (state == MT_GC_DONE)
		return mt_text_counted(story->cleanup->gc_collected_count, "object", "objects");
	snprintf(text.text, sizeof(text.text), "%s", state < MT_GC_COUNT ? words[state] : "?");
	return text;
}

uint64_t mt_cleanup_kept_since_ns(const struct mt_stats_file *file)
{
	uint64_t last = file->head.cleanups_count;

	if (last <= MT_CLEANUPS_COUNT)
		return 0;
	for (uint64_t before = MT_CLEANUPS_COUNT; before-- > 0;) {
		const struct mt_stats_cleanup *cleanup = mt_stats_file_cleanup(file, last - before);

		if (cleanup)
			return cleanup->time_ns;
	}
	return 0;
}
