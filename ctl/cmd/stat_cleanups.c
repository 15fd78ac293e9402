/* ctl/cmd/stat_cleanups.c -- the last cleanups in `mtctl stat`: --records, --all. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/cleanup_story.h"

#define CLEANUPS_SHOWN 5u

static void add_number(struct mt_table *table, uint64_t number)
{
	if (number)
		mt_table_addf(table, "%" PRIu64, number);
	else
		mt_table_add(table, "-");
}

/* GPU memory in use before and after, and the caches that were emptied, or why none was. */
static void add_cleanup_gpu(struct mt_table *table, const struct mt_stats_cleanup *cleanup)
{
	char caches[64];
	const char *word;
	uint32_t bit;
	size_t used = (size_t)snprintf(caches, sizeof(caches), "%s",
				       mt_stats_word_gpu_state(cleanup->gpu_state));

	for (size_t i = 0; (word = mt_stats_word_framework(i, &bit)); i++)
		if (cleanup->frameworks & bit)
			used += (size_t)snprintf(caches + used, sizeof(caches) - used, ",%s", word);
	mt_table_add_bytes(table, cleanup->gpu_before_bytes, cleanup->gpu_before_bytes);
	mt_table_add_bytes(table, cleanup->gpu_before_bytes, cleanup->gpu_after_bytes);
	mt_table_add(table, caches);
}

static void add_story(struct mt_table *table, const struct mt_cleanup_story *story)
{
	static const char *const results[] = {"nothing", "little", "-"};
	const struct mt_stats_cleanup *cleanup = story->cleanup;

	add_number(table, cleanup->number);
	mt_table_add(table, mt_text_clock(cleanup->time_ns).text);
	if (story->merged_count)
		mt_table_addf(table, "%s +%" PRIu64, mt_stats_word_reason(cleanup->reason),
			      story->merged_count);
	else if (cleanup->rescued_pid)
		mt_table_addf(table, "%s of %" PRIu64, mt_stats_word_reason(cleanup->reason),
			      cleanup->rescued_pid);
	else
		mt_table_add(table, mt_stats_word_reason(cleanup->reason));
	mt_table_add(table, mt_stats_word_level(cleanup->level));
	add_number(table, cleanup->round);
	mt_table_add_row(table, mt_stats_has_freed(cleanup) ? "freed" : results[cleanup->result],
			 mt_text_bytes(cleanup->rss_before_bytes).text,
			 mt_text_bytes(cleanup->rss_after_bytes).text,
			 mt_text_change(cleanup->rss_before_bytes, cleanup->rss_after_bytes).text,
			 mt_text_ns(mt_cleanup_cost_ns(cleanup)).text, NULL);
	/* A wait below a millisecond is none. */
	mt_table_add(table,
		     cleanup->gc_wait_ns >= 1000000 ? mt_text_ns(cleanup->gc_wait_ns).text : "-");
	mt_table_add(table, mt_cleanup_gc_text(story).text);
}

/* Returns whether one of the stories is of a cleanup for pressure; else the column is left out. */
static bool has_pressure(const struct mt_cleanup_story *stories, size_t count)
{
	bool found = false;

	for (size_t i = 0; i < count; i++)
		found |= stories[i].cleanup->pressure_sources != 0;
	return found;
}

static void print_stories(const struct mt_stats_head *head, const struct mt_cleanup_story *stories,
			  size_t count)
{
	bool gpu = mt_stats_file_uses_cuda(head), pressed = has_pressure(stories, count);
	struct mt_table *table =
		mt_table_new(">CLEANUP|<TIME|<REASON|<LEVEL|>ROUND|<RESULT|>RSS BEFORE|>AFTER|"
			     ">CHANGE|>COST|>WAITED|<GC");

	if (gpu)
		mt_table_add_columns(table, ">GPU BEFORE|>AFTER|<CACHES");
	if (pressed)
		mt_table_add_columns(table, "<PRESSURE");
	for (size_t i = 0; i < count; i++) {
		add_story(table, &stories[i]);
		if (gpu)
			add_cleanup_gpu(table, stories[i].cleanup);
		if (pressed)
			mt_table_add(table, mt_stats_word_pressure(stories[i].cleanup).text);
	}
	putchar('\n');
	mt_table_print(table);
}

void mt_stat_print_cleanups(const struct mt_stats_file *file, bool all)
{
	struct mt_cleanup_story *stories =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*stories)));
	size_t count = mt_cleanup_stories(file, stories),
	       shown = all || count < CLEANUPS_SHOWN ? count : CLEANUPS_SHOWN;

	if (count)
		print_stories(&file->head, stories + count - shown, shown);
	else
		puts("\nno cleanup yet");
	if (all && mt_cleanup_kept_since_ns(file))
		printf("%" PRIu64 " older ones are not kept\n",
		       file->head.cleanups_count - MT_CLEANUPS_COUNT);
	free(stories);
}
