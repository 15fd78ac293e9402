/* ctl/cmd/stat_pressure.c -- the section of `mtctl stat` on memory limits. */
#include <stdio.h>
#include <string.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

static void print_headline(const struct mt_stats_file *file)
{
	const struct mt_stats_snapshot *now = &file->head.snapshot;

	printf("\n%spressure%s: %s", mt_table_colour(MT_COLOUR_HEAD), mt_table_colour_end(),
	       mt_stats_file_is_off(file, "pressure")
		       ? "not looked at (MT_PRESSURE=0)"
		       : mt_stats_word_pressure_level(now->pressure_level));
	if (now->pressure_limit_bytes)
		printf("; %s of %s used, %.1f %% (%s)",
		       mt_text_bytes(now->pressure_used_bytes).text,
		       mt_text_bytes(now->pressure_limit_bytes).text,
		       mt_stats_percent(now->pressure_used_bytes, now->pressure_limit_bytes),
		       *file->head.limit_source ? file->head.limit_source : "?");
	else if (!mt_stats_file_is_off(file, "pressure"))
		fputs("; no limit is known", stdout);
	putchar('\n');
}

static void print_thresholds(const struct mt_stats_file *file)
{
	const char *warn = mt_stats_file_setting(file, "warn_pct"),
		   *critical = mt_stats_file_setting(file, "crit_pct");
	const char *clear = mt_stats_file_setting(file, "clear_pct"),
		   *pause = mt_stats_file_setting(file, "cooldown_ms");

	if (warn && critical && clear && pause)
		printf("  %-11swarn at %s %%, critical at %s %%, over %s points lower; %s ms "
		       "between two cleanups\n",
		       "thresholds", warn, critical, clear, pause);
}

void mt_stat_print_pressure(const struct mt_stats_file *file)
{
	const struct mt_stats_snapshot *now = &file->head.snapshot;

	print_headline(file);
	if (!mt_stats_file_is_off(file, "pressure"))
		print_thresholds(file);
	printf("  %-11swarn %s, critical %s; the container has run into its limit %s\n", "reached",
	       mt_text_counted(now->pressure_warn_count, "time", "times").text,
	       mt_text_count(now->pressure_critical_count).text,
	       mt_text_counted(now->memory_max_count, "time", "times").text);
	printf("  %-11stasks have waited for memory for %s (PSI, some)\n", "stalls",
	       mt_text_ns(now->psi_some_ns).text);
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
	if (file->head.limit_reports_count)
		printf("  %-11sMT_RSS_LIMIT_MB was reached %s: `mtctl stat PID --oom` has the "
		       "reports\n",
		       "reports",
		       mt_text_counted(file->head.limit_reports_count, "time", "times").text);
}
