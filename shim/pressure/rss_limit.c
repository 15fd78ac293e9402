#include "pressure/rss_limit.h"

#include "core/log.h"
#include "sys/saturating.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "core/publish.h"
#include "sys/format.h"

#define THREADS_FIELD 20 /* proc(5), num_threads */

/* ---- memory by owner ---- */

static void fill_shares(struct mt_stats_limit_report *limit_report,
			const struct mt_stats_snapshot *figures, bool resident_known)
{
	uint64_t heap;

	limit_report->heap_live_bytes = figures->heap_live_bytes;
	limit_report->heap_dirty_bytes = figures->heap_dirty_bytes;
	limit_report->heap_metadata_bytes = figures->heap_metadata_bytes;
	heap = limit_report->heap_live_bytes + limit_report->heap_dirty_bytes +
	       limit_report->heap_metadata_bytes;
	if (resident_known)
		limit_report->heap_pinned_bytes = mt_sat_sub(figures->heap_resident_bytes, heap);
	limit_report->other_anon_bytes =
		mt_sat_sub(limit_report->anon_bytes + limit_report->swap_bytes,
			   heap + limit_report->heap_pinned_bytes);
	limit_report->gpu_pinned_bytes = figures->gpu_pinned_bytes;
}

struct share {
	uint64_t bytes;
	const char *advice;
};

static const char *choose_advice(const struct mt_stats_limit_report *limit_report,
				 bool resident_known)
{
	const struct share shares[] = {
		{limit_report->heap_live_bytes,
		 "the program holds it: mtctl diagnose tells whether it "
		 "grows, mtctl sites which code it "
		 "comes from (MT_PROF=on)"},
		{limit_report->heap_pinned_bytes,
		 "free blocks share pages with live ones: fewer arenas "
		 "(MT_ARENA_MAX=2), or smaller "
		 "slabs (MT_MALLOC_CONF)"},
		{limit_report->heap_dirty_bytes,
		 "free, but not returned: mtctl doctor tells what this allocator can do, "
		 "MT_ALLOCATOR=jemalloc changes it"},
		{limit_report->other_anon_bytes,
		 resident_known ? "not of the heap: stacks of many threads, mmap, allocators of "
				  "libraries; mtctl diagnose names them"
				: "stacks, mmap, or free blocks that this allocator keeps: "
				  "MT_ALLOCATOR=jemalloc tells them apart"},
		{limit_report->file_bytes,
		 "pages of mapped files, which the kernel takes back by itself: "
		 "raise MT_RSS_LIMIT_MB"},
		{limit_report->shmem_bytes,
		 "shared memory: see /dev/shm, and how many workers hand data on through it"},
	};
	const struct share *largest = &shares[0];

	/* It is part of the other shares too, whose advice would not fit. */
	if (limit_report->gpu_pinned_bytes > limit_report->rss_bytes / 3)
		return "page-locked for CUDA: pin less (pin_memory, prefetch_factor of data "
		       "loaders)";
	for (size_t i = 1; i < sizeof(shares) / sizeof(shares[0]); i++)
		if (shares[i].bytes > largest->bytes)
			largest = &shares[i];
	return largest->advice;
}

void mt_rss_limit_attribute(struct mt_stats_limit_report *limit_report,
			    const struct mt_stats_snapshot *figures, bool resident_known)
{
	fill_shares(limit_report, figures, resident_known);
	(void)mt_format(limit_report->advice, sizeof(limit_report->advice), "%s",
			choose_advice(limit_report, resident_known));
}

/* ---- the report ---- */

/* Each line contains "rss-limit", for grep. */
static void print(const struct mt_stats_limit_report *limit_report)
{
	mt_log(MT_LOG_WARN,
	       "rss-limit: this process holds %llu MB, and MT_RSS_LIMIT_MB is %llu: resident %llu "
	       "MB, swapped %llu MB, "
	       "after a cleanup",
	       MT_MB(limit_report->rss_bytes + limit_report->swap_bytes),
	       MT_MB(limit_report->limit_bytes), MT_MB(limit_report->rss_bytes),
	       MT_MB(limit_report->swap_bytes));
	mt_log(MT_LOG_WARN,
	       "rss-limit: heap: live %llu MB, free and not returned %llu MB, free but pinned by "
	       "live blocks %llu MB, "
	       "the allocator's own %llu MB",
	       MT_MB(limit_report->heap_live_bytes), MT_MB(limit_report->heap_dirty_bytes),
	       MT_MB(limit_report->heap_pinned_bytes), MT_MB(limit_report->heap_metadata_bytes));
	mt_log(MT_LOG_WARN,
	       "rss-limit: outside the heap: other anonymous memory %llu MB, files %llu MB, shared "
	       "memory "
	       "%llu MB, page-locked for "
	       "CUDA %llu MB, %llu threads",
	       MT_MB(limit_report->other_anon_bytes), MT_MB(limit_report->file_bytes),
	       MT_MB(limit_report->shmem_bytes), MT_MB(limit_report->gpu_pinned_bytes),
	       (unsigned long long)limit_report->threads_count);
	mt_log(MT_LOG_WARN, "rss-limit: what to do: %s", limit_report->advice);
}

void mt_rss_limit_report(uint64_t limit_bytes)
{
	struct mt_stats_limit_report limit_report = {.time_ns = mt_os_realtime_ns(),
						     .limit_bytes = limit_bytes};
	const struct mt_stats_snapshot *figures;
	struct mt_rss_full full;

	if (!mt_rss_read_full(&full))
		return;
	limit_report.rss_bytes = full.rss_bytes;
	limit_report.anon_bytes = full.anon_bytes;
	limit_report.file_bytes = full.file_bytes;
	limit_report.shmem_bytes = full.shmem_bytes;
	limit_report.swap_bytes = full.swap_bytes;
	limit_report.threads_count = mt_os_own_procstat_number(THREADS_FIELD);
	figures = mt_publish_lock();
	mt_rss_limit_attribute(&limit_report, figures, figures->heap_resident_bytes != 0);
	mt_publish_unlock();
	print(&limit_report);
	mt_publish_add_limit_report(&limit_report);
}
