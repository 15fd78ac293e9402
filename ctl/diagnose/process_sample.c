/* ctl/diagnose/process_sample.c -- one sample of a process: its published values, and /proc. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/process/target.h"
#include "ctl/process/read_file.h"

/* samples in a row without a reply: from then on it gets a request only at every */
#define SILENT_MAX  2u
#define SILENT_STEP 16u /* ... sample, since each wait takes a second */
/* reading Python's arenas takes at most one part in so many of the time */
#define ARENAS_SHARE 20u

static uint64_t status_bytes(const char *status, const char *key)
{
	uint64_t kilobytes = 0;

	return mt_read_file_number(status, key, &kilobytes) ? kilobytes * 1024 : 0;
}

static bool read_status(struct mt_facts *facts, struct mt_sample *to)
{
	char *status = mt_process_read(facts->process.pid, "status", NULL);

	if (!status)
		return false;
	(void)mt_read_file_number(status, "Threads", &facts->threads_last);
	if (!facts->samples_count)
		facts->threads_first = facts->threads_last;
	to->anon_bytes = status_bytes(status, "RssAnon");
	to->file_bytes = status_bytes(status, "RssFile");
	to->shmem_bytes = status_bytes(status, "RssShmem");
	to->swap_bytes = status_bytes(status, "VmSwap");
	to->rss_bytes = to->anon_bytes + to->file_bytes + to->shmem_bytes;
	free(status);
	return true;
}

/* The upper bound of the heap's resident bytes: what its allocator reports as resident, or as
 * mapped. Where it reports neither, nothing counts as outside. */
static void fill_heap(const struct mt_stats_snapshot *from, struct mt_sample *to)
{
	uint64_t top =
		from->heap_resident_bytes ? from->heap_resident_bytes : from->heap_mapped_bytes;
	uint64_t anon = mt_sat_sub(to->anon_bytes, to->arenas_bytes);

	to->live_bytes = from->heap_live_bytes;
	to->idle_bytes = from->heap_idle_bytes;
	to->dirty_bytes = from->heap_dirty_bytes;
	to->held_bytes = to->live_bytes + to->arenas_live_bytes;
	to->other_bytes = mt_sample_other(to);
	if (top && top < from->heap_live_bytes)
		top = from->heap_live_bytes;
	to->outside_bytes = top ? mt_sat_sub(anon + to->swap_bytes, top) : 0;
	if (mt_diagnose_counts_heap(from))
		to->slack_bytes = mt_sat_sub(top && top < anon ? top : anon, from->heap_live_bytes);
}

static void fill_gpu(const struct mt_stats_snapshot *from, struct mt_sample *to)
{
	to->gpu_allocated_bytes = from->gpu_allocated_bytes + from->gpu_other_bytes;
	to->gpu_reserved_bytes = from->gpu_reserved_bytes + from->gpu_other_bytes;
	to->gpu_idle_bytes = from->gpu_idle_bytes;
	to->gpu_pinned_bytes = from->gpu_pinned_bytes;
	to->rounds_count = from->rounds_count;
}

/* Many arenas take long to read. Then the last values are used again for a while. */
static void fill_arenas(struct mt_facts *facts, struct mt_sample *to)
{
	uint64_t began = mt_clock_now_ns();
	struct mt_pymalloc arenas;

	if (!facts->has_pymalloc || (facts->arenas_read_ns && !facts->arenas_known))
		return;
	if (began - facts->arenas_read_ns < facts->arenas_cost_ns * ARENAS_SHARE) {
		to->arenas_bytes = to[-1].arenas_bytes;
		to->arenas_live_bytes = to[-1].arenas_live_bytes;
		return;
	}
	facts->arenas_known = mt_pymalloc_read(&facts->process, &arenas);
	facts->arenas_read_ns = mt_clock_now_ns();
	facts->arenas_cost_ns = facts->arenas_read_ns - began;
	to->arenas_bytes = arenas.pools_bytes;
	to->arenas_live_bytes = arenas.live_bytes;
}

static void refresh(struct mt_facts *facts)
{
	struct mt_stats_head head;
	struct mt_error_reason why;

	if (facts->silent_count < SILENT_MAX || facts->samples_count % SILENT_STEP == 0)
		facts->silent_count = mt_diagnose_refresh(facts) ? 0 : facts->silent_count + 1;
	if (mt_target_read_head(&facts->process, &head, &why) == MT_ERR_OK)
		facts->last.head = head;
}

/* Where the process does not reply, its last published values stay, and only /proc is read. */
bool mt_diagnose_sample_now(struct mt_facts *facts, double at_s)
{
	struct mt_sample *to = &facts->samples[facts->samples_count];

	if (facts->ended || facts->samples_count == MT_DIAGNOSE_SAMPLES)
		return false;
	memset(to, 0, sizeof(*to));
	to->at_s = at_s;
	if (facts->awake)
		refresh(facts);
	facts->ended = !mt_process_is_alive(&facts->process);
	if (facts->ended || !read_status(facts, to))
		return false;
	if (facts->asleep) {
		fill_arenas(facts, to);
		to->held_bytes = to->arenas_live_bytes;
	}
	if (facts->awake) {
		fill_arenas(facts, to);
		fill_heap(&facts->last.head.snapshot, to);
		fill_gpu(&facts->last.head.snapshot, to);
	}
	facts->samples_count++;
	return true;
}
