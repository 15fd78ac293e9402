#include "pressure/headroom.h"

#include <limits.h>

#include "sys/atomic.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* ---- growth since the last sample ---- */

/* Growth since the last sample began, growth since the sample that is under way began, and live
 * bytes at the last call. No ordering: two threads that call at once may count a MB twice or not at
 * all. */
static _Atomic int64_t growth_bytes;
static _Atomic int64_t growth_next_bytes;
static _Atomic int64_t base_bytes;

static _Atomic uint32_t samples_count; /* futex */
/* samples_count + 1 at a wait that timed out; no ordering */
static _Atomic uint32_t timed_out_sample;

void mt_unsampled_add(int64_t live_bytes, int64_t step_bytes)
{
	int64_t base = mt_load_relaxed(&base_bytes);

	if (live_bytes > base) {
		mt_add_relaxed(&growth_bytes, live_bytes - base);
		mt_add_relaxed(&growth_next_bytes, live_bytes - base);
	} else if (live_bytes > base - step_bytes) {
		return;
	}
	mt_store_relaxed(&base_bytes, live_bytes);
}

int64_t mt_unsampled_bytes(void)
{
	return mt_load_relaxed(&growth_bytes);
}

void mt_unsampled_reset(int64_t live_bytes)
{
	mt_store_relaxed(&growth_bytes, 0);
	mt_store_relaxed(&growth_next_bytes, 0);
	mt_store_relaxed(&base_bytes, live_bytes);
}

bool mt_unsampled_await_sample(void (*wake)(void), uint64_t timeout_ns)
{
	uint32_t samples = mt_load_acquire(&samples_count);

	if (samples + 1 == mt_load_relaxed(&timed_out_sample))
		return false;
	wake();
	(void)mt_os_futex_wait(&samples_count, samples, timeout_ns, MT_FUTEX_PRIVATE);
	if (samples != mt_load_acquire(&samples_count))
		return true;
	mt_store_relaxed(&timed_out_sample, samples + 1);
	return false;
}

void mt_unsampled_begin_sample(void)
{
	mt_store_relaxed(&growth_next_bytes, 0);
}

void mt_unsampled_end_sample(void)
{
	mt_store_relaxed(&growth_bytes, mt_load_relaxed(&growth_next_bytes));
	atomic_fetch_add_explicit(&samples_count, 1, memory_order_release);
	mt_os_futex_wake(&samples_count, INT_MAX, MT_FUTEX_PRIVATE);
}

/* ---- headroom ---- */

#define WINDOW_NS        MT_NS_PER_S /* outside bytes of two windows count */
#define MIN_PAUSE_NS     (100 * MT_NS_PER_MS)
#define MAX_PAUSE_NS     (2 * MT_NS_PER_S)
#define MARGIN_SHARE     32
#define MIN_MARGIN_BYTES ((int64_t)(4 * MT_MIB))
/* less free memory is not worth a purge */
#define MIN_PURGE_BYTES ((int64_t)MT_MIB)
/* share of the limit: that much free memory is purged even in a pause */
#define LARGE_SHARE 8

static void restart(struct mt_headroom *headroom, int64_t outside, int64_t floor, uint64_t now_ns)
{
	headroom->recent_bytes = headroom->older_bytes = outside;
	headroom->floor_bytes = floor;
	headroom->window_ns = now_ns;
}

static void track_outside(struct mt_headroom *headroom, int64_t outside, uint64_t now_ns)
{
	if (now_ns - headroom->window_ns >= WINDOW_NS) {
		headroom->older_bytes = headroom->recent_bytes;
		headroom->recent_bytes = outside;
		headroom->window_ns = now_ns;
	}
	headroom->recent_bytes = mt_max_i64(headroom->recent_bytes, outside);
	headroom->floor_bytes = mt_min_i64(headroom->floor_bytes, outside);
}

/* Rates a purge by the used bytes, which tell what it returned minus what was touched since.
 * Without this, a program that frees and reuses the same pages would be purged after each free. */
static void update_pause(struct mt_headroom *headroom, const struct mt_headroom_sample *now)
{
	int64_t expected =
		mt_max_i64(headroom->recent_bytes, headroom->older_bytes) - headroom->floor_bytes;
	int64_t returned = (int64_t)headroom->used_bytes - (int64_t)now->used_bytes;
	uint64_t longer = headroom->pause_ns ? headroom->pause_ns * 2 : MIN_PAUSE_NS;

	mt_assert(headroom->pause_ns <= MAX_PAUSE_NS);
	if (returned >= expected / 2)
		headroom->pause_ns = 0;
	else
		headroom->pause_ns = mt_min_u64(longer, MAX_PAUSE_NS);
}

/* Returns the bytes charged outside the heap. The resident part of the heap is no larger than the
 * anonymous memory; the rest may be touched later or never (the end of a size class, a sparse
 * array). So with exact figures it counts as future use only for the window. */
static int64_t compute_outside(const struct mt_headroom *headroom,
			       const struct mt_headroom_sample *now)
{
	int64_t heap = now->heap.held_bytes + now->heap.free_bytes;
	bool is_plain = headroom->known && headroom->exact && now->heap.exact;

	return (int64_t)now->used_bytes -
	       (is_plain ? heap : mt_min_i64(heap, (int64_t)now->anon_bytes));
}

static void update_outside(struct mt_headroom *headroom, const struct mt_headroom_sample *now,
			   int64_t outside)
{
	if (!headroom->known || headroom->exact != now->heap.exact) {
		restart(headroom, outside, (int64_t)now->used_bytes - (int64_t)now->anon_bytes,
			now->now_ns);
	} else if (now->purged && !now->heap.exact) {
		update_pause(headroom, now);
		restart(headroom, outside, outside, now->now_ns);
	} else {
		track_outside(headroom, outside, now->now_ns);
	}
	headroom->known = true;
	headroom->exact = now->heap.exact;
	headroom->used_bytes = now->used_bytes;
}

void mt_headroom_update(struct mt_headroom *headroom, const struct mt_headroom_sample *now,
			struct mt_ceiling *out)
{
	int64_t outside;

	update_outside(headroom, now, compute_outside(headroom, now));
	outside = mt_max_i64(headroom->recent_bytes, headroom->older_bytes);
	mt_assert(headroom->known && headroom->floor_bytes <= outside);
	*out = (struct mt_ceiling){
		.limit_bytes = (int64_t)now->limit_bytes,
		.outside_bytes = outside,
		.floor_bytes = now->heap.exact ? outside : headroom->floor_bytes,
		.used_bytes = (int64_t)now->used_bytes,
		.sample_at_bytes = outside + now->heap.held_bytes + now->heap.free_bytes +
				   (int64_t)now->sample_growth_bytes,
		.critical_bytes = now->critical_bytes ? (int64_t)now->critical_bytes : INT64_MAX,
		.clear_bytes = (int64_t)now->clear_bytes,
		.exact = now->heap.exact,
		.sample_ns = now->now_ns,
		.pause_until_ns = now->now_ns + headroom->pause_ns,
	};
}

struct mt_reclaimable mt_ceiling_reclaimable(const struct mt_ceiling *ceiling,
					     const struct mt_heap_size *heap)
{
	/* The caller may have freed memory before it allocated: the used bytes of the sample still
	 * include it. */
	int64_t seen = ceiling->used_bytes - (heap->held_bytes - heap->fresh_bytes);
	int64_t margin = mt_max_i64(ceiling->limit_bytes / MARGIN_SHARE, MIN_MARGIN_BYTES);
	int64_t outside =
		heap->exact ? ceiling->outside_bytes : mt_max_i64(ceiling->outside_bytes, seen);
	struct mt_reclaimable left = {
		.live_bytes = ceiling->floor_bytes + heap->held_bytes,
		.free_bytes = heap->exact ? heap->free_bytes
					  : mt_max_i64(outside - ceiling->floor_bytes, 0),
	};

	mt_assert(left.free_bytes >= 0);
	left.allowed_bytes = mt_max_i64(ceiling->limit_bytes - margin - left.live_bytes, 0);
	return left;
}

bool mt_ceiling_is_passed(const struct mt_ceiling *ceiling, const struct mt_reclaimable *left,
			  uint64_t now_ns)
{
	if (now_ns < ceiling->pause_until_ns &&
	    left->free_bytes < ceiling->limit_bytes / LARGE_SHARE)
		return false;
	return left->free_bytes >= MIN_PURGE_BYTES && left->free_bytes > left->allowed_bytes;
}
