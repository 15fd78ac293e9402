/* ctl/ui/top/marks.h -- the cleanups of a process as marks on a time axis: one character each, as
 * in `mtctl plot`. Pure. */
#ifndef MT_CTL_UI_TOP_MARKS_H
#define MT_CTL_UI_TOP_MARKS_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/process/stats_file.h"

/* From the lightest to the heaviest: where marks meet, the last one of these is drawn. */
#define MT_TOP_MARK_LETTERS "prlh"

struct mt_top_mark {
	uint64_t time_ns; /* CLOCK_REALTIME at its start */
	char letter;      /* p purge, r at the end of a round, l light, h heavy */
	bool has_freed, is_for_pressure;
};

struct mt_top_marks {
	struct mt_top_mark list[MT_CLEANUPS_COUNT]; /* the oldest first */
	size_t count;
	uint64_t kept_since_ns; /* the process keeps no older ones; 0: it keeps all */
};

/* Writes the marks of all cleanups that the file has. A late collection is in the mark of the
 * cleanup that asked for it, as in its story (ctl/process/cleanup_story.h). */
void mt_top_marks_read(struct mt_top_marks *marks, const struct mt_stats_file *file);

#endif
