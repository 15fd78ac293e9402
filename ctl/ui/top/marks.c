/* ctl/ui/top/marks.c -- see marks.h. */
#include "ctl/ui/top/marks.h"

#include <stdlib.h>

#include "ctl/output/error.h"
#include "ctl/process/cleanup_story.h"
#include "ctl/process/stats_words.h"

static struct mt_top_mark mark_of(const struct mt_cleanup_story *story)
{
	const struct mt_stats_cleanup *cleanup = story->cleanup;

	return (struct mt_top_mark){.time_ns = cleanup->time_ns,
				    .letter = cleanup->reason == MT_REASON_ROUND ? 'r'
					      : cleanup->level == MT_LEVEL_HEAVY ? 'h'
					      : cleanup->level == MT_LEVEL_LIGHT ? 'l'
										 : 'p',
				    .has_freed = mt_stats_has_freed(cleanup) ||
						 (story->late && mt_stats_has_freed(story->late)),
				    .is_for_pressure = cleanup->pressure_sources != 0};
}

void mt_top_marks_read(struct mt_top_marks *marks, const struct mt_stats_file *file)
{
	struct mt_cleanup_story *stories =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*stories)));

	marks->count = mt_cleanup_stories(file, stories);
	for (size_t i = 0; i < marks->count; i++)
		marks->list[i] = mark_of(&stories[i]);
	marks->kept_since_ns = mt_cleanup_kept_since_ns(file);
	free(stories);
}
