#include "purge/heap_sample.h"

#include <string.h>

#include "sys/attr.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"

/* ---- the interval between samples ---- */

/* bounds of the time between samples that are due only by age */
#define OVERDUE_NS MT_NS_PER_S
#define LONGEST_NS (2 * MT_NS_PER_S)
/* bytes freed since the last sample that make one due by age */
#define OVERDUE_BYTES MT_MIB
/* a result below the threshold is valid for this many times its cost: 0.005 % of the time */
#define PAUSE_SHARE 20000
/* share of the threshold by which the bound may rise before that */
#define RISE_SHARE 4

static uint64_t freed_bytes(const struct mt_snapshot *now)
{
	return mt_sat_sub(now->allocated_bytes, now->live_bytes);
}

static uint64_t bound_bytes(const struct mt_snapshot *now)
{
	return mt_sat_sub(now->anon_bytes, now->live_bytes);
}

static uint64_t pause_ns(const struct mt_last_sample *last)
{
	return mt_min_u64(last->cost_ns * PAUSE_SHARE, LONGEST_NS);
}

/* Returns whether a sample is due because of its age: one second, or two if it is expensive, and
 * only if memory was freed. The bound is too low if live memory is untouched or swapped out, and
 * outdated if the shim does not count. */
static bool is_overdue(const struct mt_last_sample *last, const struct mt_snapshot *now,
		       bool is_counted)
{
	if (now->now_ns - last->at_ns < mt_max_u64(pause_ns(last), OVERDUE_NS))
		return false;
	return !is_counted || mt_sat_sub(freed_bytes(now), last->freed_bytes) >= OVERDUE_BYTES;
}

/* Returns whether nothing was allocated, freed or touched since the last sample. */
static bool is_unchanged(const struct mt_last_sample *last, const struct mt_snapshot *now)
{
	return now->allocated_bytes == last->allocated_bytes &&
	       freed_bytes(now) == last->freed_bytes && bound_bytes(now) == last->bound_bytes;
}

enum mt_sampling_interval mt_sampling_interval_decide(const struct mt_last_sample *last,
						      const struct mt_policy *policy,
						      const struct mt_snapshot *now,
						      const struct mt_config *cfg, bool is_counted)
{
	uint64_t threshold = mt_policy_threshold_bytes(now, cfg);
	bool is_low = last->dirty_bytes < threshold &&
		      bound_bytes(now) < last->bound_bytes + threshold / RISE_SHARE;
	bool is_valid = now->now_ns - last->at_ns < pause_ns(last) ||
			(is_counted && is_unchanged(last, now));

	/* dirty bytes worth a purge are watched until they are purged or reused */
	if (!mt_policy_needs_dirty(policy, now, cfg) && last->dirty_bytes < threshold &&
	    !is_overdue(last, now, is_counted))
		return MT_SAMPLING_INTERVAL_SKIP;
	return last->at_ns && is_low && is_valid ? MT_SAMPLING_INTERVAL_REUSE
						 : MT_SAMPLING_INTERVAL_READ;
}

void mt_sampling_interval_note(struct mt_last_sample *last, const struct mt_snapshot *now)
{
	last->at_ns = now->now_ns;
	last->allocated_bytes = now->allocated_bytes;
	last->freed_bytes = freed_bytes(now);
	last->bound_bytes = bound_bytes(now);
}

/* ---- heap sample ---- */

/* glibc: below this difference of resident and live bytes, walk its lists of free chunks */
#define WALK_BYTES MT_MIB

static struct mt_heap_figures heap;
static struct mt_last_sample last;
/* part of anon - live that a trim did not return; used if the allocator does not tell dirty
 * bytes */
static uint64_t kept_bytes;

/* glibc's own count of free bytes: */
static uint64_t free_bytes;
static uint64_t kept_free_bytes; /* free bytes that a trim has visited; glibc still counts them */

/* Returns the anonymous memory at the start, which counts as in use: before the first purge nothing
 * tells it from dirty memory. */
static uint64_t first_anon_bytes(void)
{
	struct mt_rss_quick rss = {0};

	(void)mt_rss_read_quick(&rss);
	return rss.anon_bytes;
}

void mt_heap_sample_start(void)
{
	memset(&heap, 0, sizeof(heap));
	memset(&last, 0, sizeof(last));
	free_bytes = kept_free_bytes = 0;
	kept_bytes = mt_backend()->live_unknown ? first_anon_bytes() : 0;
}

/* Lowers kept_bytes with the difference: what a trim left and the program then used does not become
 * dirty by growing again. */
static void lower_kept(const struct mt_snapshot *now)
{
	uint64_t between = mt_sat_sub(now->anon_bytes, now->live_bytes);

	if (between < kept_bytes)
		kept_bytes = between;
}

/* For glibc. Dirty bytes are the resident bytes above live ones, beyond what the last trim left.
 * If there are none they are the free bytes that glibc counts, minus those that the last trim
 * visited and those that may be reused since. */
static void read_chunks(struct mt_snapshot *now)
{
	uint64_t between;
	uint64_t reused;

	lower_kept(now);
	between = mt_sat_sub(mt_sat_sub(now->anon_bytes, now->live_bytes), kept_bytes);
	now->dirty_known = true;
	/* glibc walks all free chunks under the lock of each arena: only if nothing cheaper
	 * tells. */
	if (between < WALK_BYTES && is_overdue(&last, now, true) && mt_backend()->figures(&heap)) {
		if (heap.free_bytes < kept_free_bytes)
			kept_free_bytes = heap.free_bytes;
		free_bytes = heap.free_bytes - kept_free_bytes;
		mt_sampling_interval_note(&last, now);
	}
	reused = mt_sat_sub(now->allocated_bytes, last.allocated_bytes);
	now->dirty_bytes = mt_sat_sub(free_bytes, reused);
	if (now->dirty_bytes > now->anon_bytes)
		now->dirty_bytes = now->anon_bytes;
	if (now->dirty_bytes < between)
		now->dirty_bytes = between;
	last.dirty_bytes = now->dirty_bytes;
	mt_assert(now->dirty_bytes <= now->anon_bytes || now->dirty_bytes == between);
}

static bool read_figures(bool all)
{
	const struct mt_backend *backend = mt_backend();

	return (!all && backend->pages && backend->pages(&heap)) || backend->figures(&heap);
}

/* Asks the allocator. If it does not tell, the difference of resident and live bytes counts.
 * If live bytes are unknown too, the growth since the last purge counts. Leaves dirty bytes
 * unknown if no purge is possible. */
void mt_heap_sample_read(struct mt_snapshot *now, bool all)
{
	const struct mt_backend *backend = mt_backend();
	uint64_t began_ns;

	if (backend->counting == MT_COUNTING_CHUNKS) {
		read_chunks(now);
		return;
	}
	began_ns = mt_os_thread_cpu_ns();
	if (!read_figures(all) && (!backend->live_unknown || backend->purge_impossible))
		return;
	if (!all)
		last.cost_ns = mt_sat_sub(mt_os_thread_cpu_ns(), began_ns);
	if (backend->counting == MT_COUNTING_NONE)
		now->live_bytes = heap.live_bytes;
	lower_kept(now);
	now->dirty_known = true;
	now->dirty_bytes =
		backend->figures_show_dirty
			? heap.dirty_bytes
			: mt_sat_sub(mt_sat_sub(now->anon_bytes, now->live_bytes), kept_bytes);
	mt_sampling_interval_note(&last, now);
	last.dirty_bytes = now->dirty_bytes;
}

void mt_heap_sample_update(struct mt_snapshot *now, const struct mt_policy *policy)
{
	enum mt_counting counting = mt_backend()->counting;
	enum mt_sampling_interval sampling = mt_sampling_interval_decide(
		&last, policy, now, mt_config(), counting != MT_COUNTING_NONE);

	/* for chunks a read is only arithmetic */
	if (sampling == MT_SAMPLING_INTERVAL_REUSE && counting != MT_COUNTING_CHUNKS) {
		now->dirty_known = true;
		now->dirty_bytes = last.dirty_bytes;
	} else if (sampling != MT_SAMPLING_INTERVAL_SKIP) {
		mt_heap_sample_read(now, false);
	}
}

void mt_heap_sample_invalidate(void)
{
	kept_bytes = UINT64_MAX;
	kept_free_bytes = UINT64_MAX;
	free_bytes = 0;
	last.dirty_bytes = 0;
	last.at_ns = 0;
}

void mt_heap_sample_note_trim(struct mt_snapshot *after)
{
	mt_heap_sample_invalidate();
	if (mt_backend()->counting == MT_COUNTING_CHUNKS && mt_backend()->figures(&heap)) {
		kept_free_bytes = heap.free_bytes;
		mt_sampling_interval_note(&last, after);
	}
	mt_heap_sample_read(after, true);
}

const struct mt_heap_figures *mt_heap_sample_figures(void)
{
	return &heap;
}

uint64_t mt_heap_sample_dirty_bytes(void)
{
	return last.dirty_bytes;
}
