/* ctl/cmd/stat_cleanups.c -- the last cleanups in `mtctl stat`: --records, --all. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/cleanup_story.h"

#define CLEANUPS_SHOWN 5u

void mt_stat_print_cleanups(const struct mt_stats_file *file, bool all)
{
	struct mt_cleanup_story *stories =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*stories)));
	size_t count = mt_cleanup_stories(file, stories),
	       shown = all || count < CLEANUPS_SHOWN ? count : CLEANUPS_SHOWN;

	if (count) {
		putchar('\n');
		mt_table_print(mt_cleanup_table(&file->head, stories + count - shown, shown));
	} else {
		puts("\nno cleanup yet");
	}
	if (all && mt_cleanup_kept_since_ns(file))
		printf("%" PRIu64 " older ones are not kept\n",
		       file->head.cleanups_count - MT_CLEANUPS_COUNT);
	free(stories);
}
