/* ctl/cmd/stat_oom.c -- `mtctl stat --oom` as text: the reports of devices out of memory, and of
 * MT_RSS_LIMIT_MB. */
#include <inttypes.h>
#include <stdio.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

static void add_bytes(struct mt_table *table, const char *label, uint64_t bytes,
		      const char *meaning)
{
	mt_table_add_row(table, label, mt_text_bytes(bytes).text, meaning, NULL);
}

static void add_others(struct mt_table *table, const struct mt_stats_oom *oom)
{
	char meaning[80];

	snprintf(meaning, sizeof(meaning), "in %s", mt_text_count(oom->others_count).text);
	if (oom->others_known == 1)
		add_bytes(table, "  other processes", oom->others_bytes, meaning);
	else
		mt_table_add_row(table, "  other processes", "?", "NVML did not say", NULL);
}

static void print_figures(const struct mt_stats_oom *oom)
{
	struct mt_table *table = mt_table_new("<  WHAT|>BYTES|<MEANING");

	add_bytes(table, "  asked", oom->asked_bytes, "by the call that failed");
	/* The driver cannot be called while a stream captures. */
	if (oom->total_bytes) {
		add_bytes(table, "  free", oom->free_bytes, "on the device, as the driver says");
		add_bytes(table, "  total", oom->total_bytes, "memory of the device");
	} else {
		mt_table_add_row(table, "  free", "?", "the driver could not be asked", NULL);
	}
	add_bytes(table, "  allocated", oom->allocated_bytes,
		  "live in this process, of every kind that is counted");
	add_bytes(table, "  reserved", oom->reserved_bytes, "held from the driver by this process");
	add_bytes(table, "  reserved peak", oom->reserved_peak_bytes, "highest of it");
	add_bytes(table, "  idle", oom->idle_bytes, "cached by the pool, pending included");
	add_bytes(table, "  largest idle", oom->largest_idle_bytes, "largest idle block");
	if (oom->framework_idle_bytes)
		add_bytes(table, "  PyTorch idle", oom->framework_idle_bytes,
			  "held unused by PyTorch's own cache when it was last looked at");
	add_others(table, oom);
	mt_table_print(table);
}

static void print_report(const struct mt_stats_oom *oom)
{
	printf("%sout of memory %" PRIu64 "%s, %s: %s asked for %s on GPU %" PRIu64 "\n",
	       mt_table_colour(MT_COLOUR_HEAD), oom->number, mt_table_colour_end(),
	       mt_text_clock(oom->time_ns).text, oom->function,
	       mt_text_bytes(oom->asked_bytes).text, oom->device);
	print_figures(oom);
	printf("  flushes and second tries (num_alloc_retries) %s, errors on this device "
	       "(num_ooms) %s\n",
	       mt_text_count(oom->num_alloc_retries).text, mt_text_count(oom->num_ooms).text);
	if (oom->unreported_count)
		printf("  errors before it that left no report: %s\n",
		       mt_text_count(oom->unreported_count).text);
	if (oom->rescue_bytes)
		printf("  given back by other processes before it: %s, most of it by process "
		       "%" PRIu64 "\n",
		       mt_text_bytes(oom->rescue_bytes).text, oom->rescue_pid);
	printf("  likely cause: %s\n", mt_stats_word_oom_cause(oom->cause));
	if (*oom->advice)
		printf("  -> %s\n", oom->advice);
}

static void print_limit_report(const struct mt_stats_limit_report *limit_report)
{
	struct mt_table *table = mt_table_new("<  WHAT|>BYTES|<MEANING");

	printf("%slimit report %" PRIu64
	       "%s, %s: MT_RSS_LIMIT_MB, %s, was reached with %s; who held what after a heavy "
	       "cleanup:\n",
	       mt_table_colour(MT_COLOUR_HEAD), limit_report->number, mt_table_colour_end(),
	       mt_text_clock(limit_report->time_ns).text,
	       mt_text_bytes(limit_report->limit_bytes).text,
	       mt_text_counted(limit_report->threads_count, "thread", "threads").text);
	add_bytes(table, "  resident", limit_report->rss_bytes, "RssAnon + RssFile + RssShmem");
	add_bytes(table, "  swapped", limit_report->swap_bytes, "counts as well");
	add_bytes(table, "  anonymous", limit_report->anon_bytes, "heap, stacks, mmap");
	add_bytes(table, "  heap live", limit_report->heap_live_bytes,
		  "held by the program: no cleanup returns it");
	add_bytes(table, "  heap dirty", limit_report->heap_dirty_bytes,
		  "free, and could still be returned");
	add_bytes(table, "  heap pinned", limit_report->heap_pinned_bytes,
		  "free, but in pages that hold live blocks too");
	add_bytes(table, "  heap metadata", limit_report->heap_metadata_bytes,
		  "what the allocator spends on itself");
	add_bytes(table, "  other", limit_report->other_anon_bytes,
		  "anonymous memory outside of the heap");
	add_bytes(table, "  files", limit_report->file_bytes,
		  "mapped files: the kernel can drop what is clean of them");
	add_bytes(table, "  shared", limit_report->shmem_bytes,
		  "/dev/shm, memfd, anonymous MAP_SHARED");
	if (limit_report->gpu_pinned_bytes)
		add_bytes(table, "  page-locked", limit_report->gpu_pinned_bytes,
			  "host memory of CUDA");
	mt_table_print(table);
	if (*limit_report->advice)
		printf("  -> %s\n", limit_report->advice);
}

/* Prints a blank line between two reports. */
static void separate(uint64_t *shown)
{
	if ((*shown)++)
		putchar('\n');
}

void mt_stat_print_oom_text(const struct mt_target *target)
{
	const struct mt_stats_file *file = &target->file;
	uint64_t ooms = file->head.ooms_count, limit_reports = file->head.limit_reports_count,
		 shown = 0;

	for (uint64_t back = MT_OOMS_COUNT; back-- > 0;) {
		const struct mt_stats_oom *oom = mt_stats_file_oom(file, ooms - back);

		if (back >= ooms || !oom)
			continue;
		separate(&shown);
		print_report(oom);
	}
	for (uint64_t back = MT_LIMIT_REPORTS_COUNT; back-- > 0;) {
		const struct mt_stats_limit_report *limit_report =
			mt_stats_file_limit_report(file, limit_reports - back);

		if (back >= limit_reports || !limit_report)
			continue;
		separate(&shown);
		print_limit_report(limit_report);
	}
	if (shown)
		return;
	if (limit_reports)
		printf("MT_RSS_LIMIT_MB was reached (%s), but the reports are not there\n",
		       mt_text_counted(limit_reports, "time", "times").text);
	else if (file->head.snapshot.gpu_num_ooms)
		printf("out-of-memory errors have reached this program (%s), but their reports are "
		       "not there\n",
		       mt_text_count(file->head.snapshot.gpu_num_ooms).text);
	else
		puts("no out-of-memory error has reached this program");
}
