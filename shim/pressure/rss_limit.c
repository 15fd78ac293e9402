#include "pressure/rss_limit.h"

#include "core/log.h"
#include "sys/saturating.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "core/publish.h"
#include "sys/format.h"

#define MB(bytes)     ((unsigned long long)((bytes) / MT_MIB))
#define THREADS_FIELD 20 /* proc(5), num_threads */

/* ---- memory by owner ---- */

static void fill_shares(struct mt_stats_alarm *alarm, const struct mt_stats_snapshot *figures,
			bool resident_known)
{
	uint64_t heap;

	alarm->heap_live_bytes = figures->heap_live_bytes;
	alarm->heap_dirty_bytes = figures->heap_dirty_bytes;
	alarm->heap_metadata_bytes = figures->heap_metadata_bytes;
	heap = alarm->heap_live_bytes + alarm->heap_dirty_bytes + alarm->heap_metadata_bytes;
	if (resident_known)
		alarm->heap_pinned_bytes = mt_sat_sub(figures->heap_resident_bytes, heap);
	alarm->other_anon_bytes =
		mt_sat_sub(alarm->anon_bytes + alarm->swap_bytes, heap + alarm->heap_pinned_bytes);
	alarm->gpu_pinned_bytes = figures->gpu_pinned_bytes;
}

struct share {
	uint64_t bytes;
	const char *advice;
};

static const char *choose_advice(const struct mt_stats_alarm *alarm, bool resident_known)
{
	const struct share shares[] = {
		{alarm->heap_live_bytes, "the program holds it: mtctl diagnose tells whether it "
					 "grows, mtctl sites which code it "
					 "comes from (MT_PROF=1)"},
		{alarm->heap_pinned_bytes, "free blocks share pages with live ones: fewer arenas "
					   "(MT_ARENA_MAX=2), or smaller "
					   "slabs (MT_MALLOC_CONF)"},
		{alarm->heap_dirty_bytes,
		 "free, but not returned: mtctl doctor tells what this allocator can do, "
		 "MT_ALLOCATOR=jemalloc changes it"},
		{alarm->other_anon_bytes,
		 resident_known ? "not of the heap: stacks of many threads, mmap, allocators of "
				  "libraries; mtctl diagnose names them"
				: "stacks, mmap, or free blocks that this allocator keeps: "
				  "MT_ALLOCATOR=jemalloc tells them apart"},
		{alarm->file_bytes, "pages of mapped files, which the kernel takes back by itself: "
				    "raise MT_RSS_LIMIT_MB"},
		{alarm->shmem_bytes,
		 "shared memory: see /dev/shm, and how many workers hand data on through it"},
	};
	const struct share *largest = &shares[0];

	/* It is part of the other shares too, whose advice would not fit. */
	if (alarm->gpu_pinned_bytes > alarm->rss_bytes / 3)
		return "page-locked for CUDA: pin less (pin_memory, prefetch_factor of data "
		       "loaders)";
	for (size_t i = 1; i < sizeof(shares) / sizeof(shares[0]); i++)
		if (shares[i].bytes > largest->bytes)
			largest = &shares[i];
	return largest->advice;
}

void mt_rss_limit_attribute(struct mt_stats_alarm *alarm, const struct mt_stats_snapshot *figures,
			    bool resident_known)
{
	fill_shares(alarm, figures, resident_known);
	(void)mt_format(alarm->advice, sizeof(alarm->advice), "%s",
			choose_advice(alarm, resident_known));
}

/* ---- the report ---- */

/* Each line contains "rss-limit", for grep. */
static void print(const struct mt_stats_alarm *alarm)
{
	mt_log(MT_LOG_WARN,
	       "rss-limit: this process holds %llu MB, and MT_RSS_LIMIT_MB is %llu: resident %llu "
	       "MB, swapped %llu MB, "
	       "after a cleanup",
	       MB(alarm->rss_bytes + alarm->swap_bytes), MB(alarm->limit_bytes),
	       MB(alarm->rss_bytes), MB(alarm->swap_bytes));
	mt_log(MT_LOG_WARN,
	       "rss-limit: heap: live %llu MB, free and not returned %llu MB, free but pinned by "
	       "live blocks %llu MB, "
	       "the allocator's own %llu MB",
	       MB(alarm->heap_live_bytes), MB(alarm->heap_dirty_bytes),
	       MB(alarm->heap_pinned_bytes), MB(alarm->heap_metadata_bytes));
	mt_log(MT_LOG_WARN,
	       "rss-limit: outside the heap: other anonymous memory %llu MB, files %llu MB, shared "
	       "memory "
	       "%llu MB, page-locked for "
	       "CUDA %llu MB, %llu threads",
	       MB(alarm->other_anon_bytes), MB(alarm->file_bytes), MB(alarm->shmem_bytes),
	       MB(alarm->gpu_pinned_bytes), (unsigned long long)alarm->threads_count);
	mt_log(MT_LOG_WARN, "rss-limit: what to do: %s", alarm->advice);
}

void mt_rss_limit_report(uint64_t limit_bytes)
{
	struct mt_stats_alarm alarm = {.time_ns = mt_os_realtime_ns(), .limit_bytes = limit_bytes};
	const struct mt_stats_snapshot *figures;
	struct mt_rss_full full;

	if (!mt_rss_read_full(&full))
		return;
	alarm.rss_bytes = full.rss_bytes;
	alarm.anon_bytes = full.anon_bytes;
	alarm.file_bytes = full.file_bytes;
	alarm.shmem_bytes = full.shmem_bytes;
	alarm.swap_bytes = full.swap_bytes;
	alarm.threads_count = mt_os_own_procstat_number(THREADS_FIELD);
	figures = mt_publish_lock();
	mt_rss_limit_attribute(&alarm, figures, figures->heap_resident_bytes != 0);
	mt_publish_unlock();
	print(&alarm);
	mt_publish_add_alarm(&alarm);
}
