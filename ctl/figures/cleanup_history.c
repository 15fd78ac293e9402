#include "ctl/figures/stats_file.h"

#include <inttypes.h>
#include <stdio.h>

#include "ctl/output/table.h"
#include "sys/saturating.h"

/* Gives the late collection to the entries that wait for it. Returns whether there is one. */
static bool resolve(struct mt_cleanup_entry *entries, size_t count,
		    const struct mt_stats_cleanup *late)
{
	struct mt_cleanup_entry *first = NULL;

	for (size_t i = 0; i < count; i++) {
		if (entries[i].late || (entries[i].cleanup->gc_state != MT_GC_LATE &&
					entries[i].cleanup->gc_state != MT_GC_BLOCKED))
			continue;
		entries[i].late = late;
		entries[i].has_joined = first != NULL;
		first = first ? first : &entries[i];
	}
	return first != NULL;
}

size_t mt_cleanup_history(const struct mt_stats_file *file, struct mt_cleanup_entry *out)
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
			(struct mt_cleanup_entry){.cleanup = cleanup, .merged_count = merged_count};
		merged_count = 0;
	}
	return count;
}

uint64_t mt_cleanup_cost_ns(const struct mt_stats_cleanup *cleanup)
{
	return mt_sat_sub(cleanup->duration_ns, cleanup->gc_wait_ns);
}

static struct mt_short_text late_text(const struct mt_cleanup_entry *entry)
{
	const struct mt_stats_cleanup *late = entry->late;
	double seconds = (double)mt_sat_sub(late->time_ns, entry->cleanup->time_ns) / 1e9;

	if (entry->has_joined || late->gc_state != MT_GC_DONE)
		return mt_text_format("%s %.1f s later",
				      late->gc_state == MT_GC_DONE ? "ran" : "left out", seconds);
	return mt_text_format("%.14s objects, %.1f s later, %.14s",
			      mt_text_count(late->gc_collected_count).text, seconds,
			      mt_text_change(late->rss_before_bytes, late->rss_after_bytes).text);
}

struct mt_short_text mt_cleanup_gc_text(const struct mt_cleanup_entry *entry)
{
	static const char *const words[MT_GC_COUNT] = {
		[MT_GC_NONE] = "-",
		[MT_GC_DISABLED] = "disabled by the program",
		[MT_GC_LATE] = "waits: main thread runs C code",
		[MT_GC_BLOCKED] = "waits: main thread in a system call",
		[MT_GC_SHARED] = "left out: would copy shared pages"};
	uint32_t state = entry->cleanup->gc_state;

	if (entry->late)
		return late_text(entry);
	if (state == MT_GC_DONE)
		return mt_text_counted(entry->cleanup->gc_collected_count, "object", "objects");
	return mt_text_format("%s", state < MT_GC_COUNT ? words[state] : "?");
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

/* ---- as a table ---- */

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

static void add_entry(struct mt_table *table, const struct mt_cleanup_entry *entry)
{
	static const char *const results[] = {"nothing", "little", "-"};
	const struct mt_stats_cleanup *cleanup = entry->cleanup;

	add_number(table, cleanup->number);
	mt_table_add(table, mt_text_clock(cleanup->time_ns).text);
	if (entry->merged_count)
		mt_table_addf(table, "%s +%" PRIu64, mt_stats_word_reason(cleanup->reason),
			      entry->merged_count);
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
	mt_table_add(table, mt_cleanup_gc_text(entry).text);
}

struct mt_table *mt_cleanup_table(const struct mt_stats_head *head,
				  const struct mt_cleanup_entry *entries, size_t count)
{
	/* pressed: one is of a cleanup for pressure; else the column is left out */
	bool gpu = mt_stats_file_uses_cuda(head), pressed = false;
	struct mt_table *table =
		mt_table_new(">CLEANUP|<TIME|<REASON|<LEVEL|>ROUND|<RESULT|>RSS BEFORE|>AFTER|"
			     ">CHANGE|>COST|>WAITED|<GC");

	for (size_t i = 0; i < count; i++)
		pressed |= entries[i].cleanup->pressure_sources != 0;
	if (gpu)
		mt_table_add_columns(table, ">GPU BEFORE|>AFTER|<CACHES");
	if (pressed)
		mt_table_add_columns(table, "<PRESSURE");
	for (size_t i = 0; i < count; i++) {
		add_entry(table, &entries[i]);
		if (gpu)
			add_cleanup_gpu(table, entries[i].cleanup);
		if (pressed)
			mt_table_add(table, mt_stats_word_pressure(entries[i].cleanup).text);
	}
	return table;
}
