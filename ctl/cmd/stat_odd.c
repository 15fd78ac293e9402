/* ctl/cmd/stat_odd.c -- what is odd about a process, for the last lines of `mtctl stat`. Each rule
 * looks at published figures alone; `mtctl diagnose` looks longer. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/cleanup_story.h"
#include "ctl/process/clock.h"
#include "ctl/process/memory_parts.h"
#include "sys/saturating.h"

#define MB ((uint64_t)1 << 20)
/* an awake process publishes every 30 s, and at once when it is asked */
#define OLD_NS       (35 * UINT64_C(1000000000))
#define SILENT_NS    (3 * UINT64_C(1000000000))
#define WORTH_BYTES  (64 * MB) /* of reusable memory, and a quarter of RSS */
#define LODGED_BYTES (64 * MB) /* free between live blocks, and a third of the heap */

struct oddities {
	const struct mt_target *target;
	const struct mt_stats_snapshot *now;
	const struct mt_stat_view *view;
	const char *label; /* before the first line */
};

__attribute__((format(printf, 2, 3))) static void say(struct oddities *oddities, const char *format,
						      ...)
{
	va_list arguments;

	printf("%s%-10s%s ", mt_table_colour(MT_COLOUR_WARN), oddities->label,
	       mt_table_colour_end());
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	oddities->label = "";
}

static void judge_process(struct oddities *oddities)
{
	const struct mt_target *target = oddities->target;
	const struct mt_stats_head *head = &target->file.head;
	uint64_t age_ns = mt_sat_sub(mt_clock_realtime_ns(), head->time_ns);

	if (age_ns > (oddities->view->cached ? OLD_NS : SILENT_NS))
		say(oddities, "it does not reply: its figures are %s old",
		    mt_text_span(age_ns).text);
	if (target->process.library_deleted)
		say(oddities, "its library is an older one, deleted from disk; restart the process "
			      "to get the present one");
	if (strcmp(head->mode, "shadowed") == 0)
		say(oddities, "another malloc serves the program: %s", head->evidence);
	if (oddities->now->signal_disposition == 3)
		say(oddities, "SIGUSR1 does not reach the shim any more: the program has replaced "
			      "its handler by a raw system call");
}

static void judge_parts(struct oddities *oddities)
{
	const struct mt_stats_snapshot *now = oddities->now;
	const struct mt_memory_parts parts = mt_memory_parts_of_snapshot(now, now->rss_bytes);
	uint64_t reusable = parts.bytes[MT_PART_REUSABLE], live = parts.bytes[MT_PART_LIVE];
	uint64_t lodged = mt_sat_sub(now->heap_active_bytes, now->heap_live_bytes);

	if (reusable >= WORTH_BYTES && reusable >= now->rss_bytes / 4)
		say(oddities, "much is reusable: `mtctl trim %d` returns about %s",
		    (int)oddities->target->process.pid, mt_text_bytes(reusable).text);
	if (lodged >= LODGED_BYTES && lodged >= now->heap_active_bytes / 3)
		say(oddities,
		    "%s of the heap are free between live blocks: no cleanup returns "
		    "them",
		    mt_text_bytes(lodged).text);
	if (mt_sat_sub(now->heap_live_bytes, live) >= WORTH_BYTES &&
	    now->heap_live_bytes / 4 >= live / 3)
		say(oddities,
		    "its live blocks have %s: what is not resident was never touched, or "
		    "is swapped out",
		    mt_text_bytes(now->heap_live_bytes).text);
	if (now->swap_bytes >= MB)
		say(oddities, "%s are swapped out", mt_text_bytes(now->swap_bytes).text);
}

static void judge_limits(struct oddities *oddities)
{
	const struct mt_stats_snapshot *now = oddities->now;
	const struct mt_stats_head *head = &oddities->target->file.head;

	if (now->pressure_level)
		say(oddities, "memory pressure: %s",
		    mt_stats_word_pressure_level(now->pressure_level));
	if (now->memory_max_count)
		say(oddities, "the container has run into its limit %s",
		    mt_text_counted(now->memory_max_count, "time", "times").text);
	if (head->limit_reports_count)
		say(oddities,
		    "MT_RSS_LIMIT_MB was reached %s: `mtctl stat %d --oom` has the reports",
		    mt_text_counted(head->limit_reports_count, "time", "times").text,
		    (int)oddities->target->process.pid);
	if (head->ooms_count)
		say(oddities, "%s of a GPU: `mtctl stat %d --oom` has the last ones",
		    mt_text_counted(head->ooms_count, "out-of-memory error", "out-of-memory errors")
			    .text,
		    (int)oddities->target->process.pid);
}

/* What the newest cleanup that asked for a collection says. */
static void judge_gc(struct oddities *oddities)
{
	struct mt_cleanup_story *stories =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*stories)));
	size_t count = mt_cleanup_stories(&oddities->target->file, stories);

	while (count && stories[count - 1].cleanup->gc_state == MT_GC_NONE)
		count--;
	if (count && !stories[count - 1].late) {
		const struct mt_stats_cleanup *cleanup = stories[count - 1].cleanup;

		if (cleanup->gc_state == MT_GC_BLOCKED || cleanup->gc_state == MT_GC_LATE)
			say(oddities,
			    "Python's gc waits since %.8s: the main thread %s; it runs as soon as "
			    "that returns",
			    mt_text_clock(cleanup->time_ns).text,
			    cleanup->gc_state == MT_GC_BLOCKED ? "is in a system call"
							       : "runs C code");
		else if (cleanup->gc_state == MT_GC_DISABLED)
			say(oddities, "Python's gc is disabled by the program");
	}
	free(stories);
}

void mt_stat_print_odd(const struct mt_target *target, const struct mt_stat_view *view,
		       const char *label)
{
	struct oddities oddities = {target, &target->file.head.snapshot, view, label};

	judge_process(&oddities);
	judge_parts(&oddities);
	judge_limits(&oddities);
	judge_gc(&oddities);
	if (*oddities.label)
		printf("%-10s nothing; `mtctl stat %d --all` has every figure\n", label,
		       (int)target->process.pid);
}
