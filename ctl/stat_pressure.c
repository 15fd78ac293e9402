/* ctl/stat_pressure.c -- `mtctl stat` on the limits that a process lives under, and on the alarms
 * of MT_RSS_LIMIT_MB. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/stat.h"
#include "ctl/table.h"
#include "ctl/text.h"

static bool is_off(const struct mt_stats_file *file)
{
	const char *setting = mt_statsfile_setting(file, "pressure");

	return setting && (strcmp(setting, "0") == 0 || strcmp(setting, "off") == 0);
}

static void print_headline(const struct mt_stats_file *file)
{
	const struct mt_stats_snapshot *now = &file->head.snapshot;

	printf("\n%spressure%s: %s", mt_table_colour(MT_COLOUR_HEAD), mt_table_colour_end(),
	       is_off(file) ? "not looked at (MT_PRESSURE=0)"
			    : mt_statsfile_pressure_level(now->pressure_level));
	if (now->pressure_limit_bytes)
		printf("; %s of %s used, %.1f %% (%s)",
		       mt_text_bytes(now->pressure_used_bytes).text,
		       mt_text_bytes(now->pressure_limit_bytes).text,
		       mt_statsfile_percent(now->pressure_used_bytes, now->pressure_limit_bytes),
		       *file->head.limit_source ? file->head.limit_source : "?");
	else if (!is_off(file))
		fputs("; no limit is known", stdout);
	putchar('\n');
}

static void print_thresholds(const struct mt_stats_file *file)
{
	const char *warn = mt_statsfile_setting(file, "warn_pct"),
		   *critical = mt_statsfile_setting(file, "crit_pct");
	const char *clear = mt_statsfile_setting(file, "clear_pct"),
		   *pause = mt_statsfile_setting(file, "cooldown_ms");

	if (warn && critical && clear && pause)
		printf("  %-11swarn at %s %%, critical at %s %%, over %s points lower; %s ms "
		       "between two cleanups\n",
		       "thresholds", warn, critical, clear, pause);
}

void mt_stat_print_pressure(const struct mt_stats_file *file)
{
	const struct mt_stats_snapshot *now = &file->head.snapshot;

	print_headline(file);
	if (!is_off(file))
		print_thresholds(file);
	printf("  %-11swarn %s, critical %s; the container has run into its limit %s\n", "reached",
	       mt_text_counted(now->pressure_warn_count, "time", "times").text,
	       mt_text_count(now->pressure_critical_count).text,
	       mt_text_counted(now->memory_max_count, "time", "times").text);
	printf("  %-11stasks have waited for memory for %s (PSI, some)\n", "stalls",
	       mt_text_field("psi_some_us", now->psi_some_us).text);
	printf("  %-11s%s for pressure, which returned %s\n", "cleanups",
	       mt_text_count(now->pressure_clean_count).text,
	       mt_text_bytes(now->pressure_returned_bytes).text);
	printf("  %-11sthreads that allocated returned free memory %s before they went on, %s "
	       "together\n",
	       "reclaims", mt_text_counted(now->pressure_wait_count, "time", "times").text,
	       mt_text_ns(now->pressure_wait_ns).text);
	printf("  %-11s%.2f on %s CPUs; this process has used %s of CPU time\n", "load",
	       (double)now->load_thousandths / 1000,
	       now->cpus_count ? mt_text_count(now->cpus_count).text : "?",
	       mt_text_ns(now->cpu_ns).text);
	if (file->head.alarms_count)
		printf("  %-11sMT_RSS_LIMIT_MB was reached %s: `mtctl stat PID --oom` has the "
		       "reports\n",
		       "alarms", mt_text_counted(file->head.alarms_count, "time", "times").text);
}

struct mt_figure mt_stat_pressure_text(const struct mt_stats_cleanup *record)
{
	struct mt_figure text = {"-"};
	const char *word;
	size_t used;

	if (!record->pressure_sources)
		return text;
	used = (size_t)snprintf(text.text, sizeof(text.text), "%s",
				mt_statsfile_pressure_level(record->pressure_level));
	if (record->pressure_limit_bytes)
		used += (size_t)snprintf(text.text + used, sizeof(text.text) - used, " %.1f %%",
					 mt_statsfile_percent(record->pressure_used_bytes,
							      record->pressure_limit_bytes));
	for (size_t bit = 0; used < sizeof(text.text) && (word = mt_statsfile_pressure_source(bit));
	     bit++)
		if (record->pressure_sources & (1u << bit))
			used += (size_t)snprintf(text.text + used, sizeof(text.text) - used, ", %s",
						 word);
	return text;
}

/* ---- alarms ---- */

static void add_row(struct mt_table *table, const char *label, uint64_t bytes, const char *meaning)
{
	mt_table_add(table, label);
	mt_table_add(table, mt_text_bytes(bytes).text);
	mt_table_add(table, meaning);
}

static void print_alarm(const struct mt_stats_alarm *alarm)
{
	struct mt_table *table = mt_table_new("lrl");

	printf("%salarm %" PRIu64
	       "%s, %s: MT_RSS_LIMIT_MB, %s, was reached with %s; who held what after a heavy "
	       "cleanup:\n",
	       mt_table_colour(MT_COLOUR_HEAD), alarm->number, mt_table_colour_end(),
	       mt_text_clock(alarm->time_ns).text, mt_text_bytes(alarm->limit_bytes).text,
	       mt_text_counted(alarm->threads_count, "thread", "threads").text);
	mt_table_add(table, "  WHAT");
	mt_table_add(table, "BYTES");
	mt_table_add(table, "MEANING");
	add_row(table, "  resident", alarm->rss_bytes, "RssAnon + RssFile + RssShmem");
	add_row(table, "  swapped", alarm->swap_bytes, "counts as well");
	add_row(table, "  anonymous", alarm->anon_bytes, "heap, stacks, mmap");
	add_row(table, "  heap live", alarm->heap_live_bytes,
		"held by the program: no cleanup returns it");
	add_row(table, "  heap dirty", alarm->heap_dirty_bytes,
		"free, and could still be returned");
	add_row(table, "  heap pinned", alarm->heap_pinned_bytes,
		"free, but in pages that hold live blocks too");
	add_row(table, "  heap metadata", alarm->heap_metadata_bytes,
		"what the allocator spends on itself");
	add_row(table, "  other", alarm->other_anon_bytes, "anonymous memory outside of the heap");
	add_row(table, "  files", alarm->file_bytes,
		"mapped files: the kernel can drop what is clean of them");
	add_row(table, "  shared", alarm->shmem_bytes, "/dev/shm, memfd, anonymous MAP_SHARED");
	if (alarm->gpu_pinned_bytes)
		add_row(table, "  page-locked", alarm->gpu_pinned_bytes, "host memory of CUDA");
	mt_table_print(table);
	if (*alarm->advice)
		printf("  -> %s\n", alarm->advice);
}

void mt_stat_print_alarms(const struct mt_stats_file *file)
{
	uint64_t shown = 0;

	for (uint64_t back = MT_ALARMS_COUNT; back-- > 0;) {
		const struct mt_stats_alarm *alarm =
			back < file->head.alarms_count
				? mt_statsfile_alarm(file, file->head.alarms_count - back)
				: NULL;

		if (!alarm)
			continue;
		if (shown++)
			putchar('\n');
		print_alarm(alarm);
	}
	if (!shown)
		printf("MT_RSS_LIMIT_MB was reached (%s), but the reports are not there\n",
		       mt_text_counted(file->head.alarms_count, "time", "times").text);
}
