#include "pressure/pressure_internal.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/control_file.h"
#include "core/services.h"
#include "core/state.h"
#include "core/thread.h"
#include "heap/account.h"
#include "heap/backend.h"
#include "heap/trim.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/main_thread.h"
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

void mt_reclaim_unsampled_add(int64_t live_bytes, int64_t step_bytes)
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

int64_t mt_reclaim_unsampled_bytes(void)
{
	return mt_load_relaxed(&growth_bytes);
}

void mt_reclaim_unsampled_reset(int64_t live_bytes)
{
	mt_store_relaxed(&growth_bytes, 0);
	mt_store_relaxed(&growth_next_bytes, 0);
	mt_store_relaxed(&base_bytes, live_bytes);
}

bool mt_reclaim_unsampled_await_sample(void (*wake)(void), uint64_t timeout_ns)
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

void mt_reclaim_unsampled_begin_sample(void)
{
	mt_store_relaxed(&growth_next_bytes, 0);
}

void mt_reclaim_unsampled_end_sample(void)
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

void mt_reclaim_headroom_update(struct mt_headroom *headroom, const struct mt_headroom_sample *now,
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

struct mt_reclaimable mt_reclaim_ceiling_reclaimable(const struct mt_ceiling *ceiling,
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

bool mt_reclaim_ceiling_is_passed(const struct mt_ceiling *ceiling,
				  const struct mt_reclaimable *left, uint64_t now_ns)
{
	if (now_ns < ceiling->pause_until_ns &&
	    left->free_bytes < ceiling->limit_bytes / LARGE_SHARE)
		return false;
	return left->free_bytes >= MIN_PURGE_BYTES && left->free_bytes > left->allowed_bytes;
}

/* ---- direct reclaim ---- */

#define STEP_BYTES ((int64_t)MT_MIB)
/* how long a thread waits for another one that returns memory */
#define RECLAIM_WAIT_NS (100 * MT_NS_PER_MS)
/* the same for a thread in free: the memory is being returned already */
#define FREE_WAIT_NS    (10 * MT_NS_PER_MS)
#define WAIT_FACTOR_MAX 10 /* multiple of RECLAIM_WAIT_NS for a large block */
/* allocated before the worker's first sample; a thread that reaches it waits for the sample */
#define INITIAL_BYTES ((int64_t)(64 * MT_MIB))
/* share of the limit: at a smaller distance threads wait for no sample */
#define MIN_SAFE_SHARE 32
/* share of the limit: free memory above it is returned when a large block is freed */
#define FREE_MAX_SHARE 8
/* share of the limit: a smaller fall of live bytes is memory that is reused */
#define TURNOVER_SHARE 64
/* over glibc a thread reports every 4 MB: once before the sample and once before now */
#define UNREPORTED_BYTES ((int64_t)(8 * MT_MIB))
/* shortest time between two requests for a collection while the limit stays close */
#define COLLECT_NS (10 * MT_NS_PER_S)
/* shortest time between two samples that growth requests */
#define SAMPLE_PAUSE_NS (10 * MT_NS_PER_MS)
/* the same while the limit is far, and between two returns of memory by the program's threads */
#define FAR_PAUSE_NS (50 * MT_NS_PER_MS)
/* memory is filled no faster than that */
#define FILL_BYTES_PER_NS 16

/* The ceiling, in words: a thread that reads words of two samples compares a little too early or
 * too late. No ordering. */
#define CEILING_WORDS (sizeof(struct mt_ceiling) / sizeof(uint64_t))
static_assert(sizeof(struct mt_ceiling) % sizeof(uint64_t) == 0, "it is copied by words");
static _Atomic uint64_t ceiling_words[CEILING_WORDS];

static _Atomic bool has_ceiling; /* there is a ceiling; no ordering */
static _Atomic int64_t
	countdown_bytes; /* bytes to allocate until the next comparison; counter, no ordering */
static _Atomic bool sample_requested;    /* no ordering: the control file has its own */
static _Atomic bool memory_was_returned; /* since the last sample began; no ordering */
static _Atomic uint64_t run_began_ns;    /* last return of memory by a thread; no ordering */
static _Atomic bool is_left;             /* a thread has left a return to the worker; no ordering */
static _Atomic uint64_t runs_count;      /* counters, no ordering */
static _Atomic uint64_t runs_ns;
/* when Python may be asked again while the limit stays close; no ordering */
static _Atomic uint64_t collect_ns;
static struct mt_headroom headroom; /* worker thread */

static struct mt_ceiling read_ceiling(void)
{
	uint64_t words[CEILING_WORDS];
	struct mt_ceiling ceiling;

	for (size_t i = 0; i < CEILING_WORDS; i++)
		words[i] = mt_load_relaxed(&ceiling_words[i]);
	memcpy(&ceiling, words, sizeof(ceiling));
	return ceiling;
}

static void write_ceiling(const struct mt_ceiling *ceiling)
{
	uint64_t words[CEILING_WORDS];

	memcpy(words, ceiling, sizeof(words));
	for (size_t i = 0; i < CEILING_WORDS; i++)
		mt_store_relaxed(&ceiling_words[i], words[i]);
}

static bool read_heap(bool may_be_exact, struct mt_heap_size *out)
{
	const struct mt_backend *backend = mt_backend();
	struct mt_heap_figures pages = {0};
	struct mt_account_totals totals;

	*out = (struct mt_heap_size){.exact = may_be_exact && backend->pages &&
					      backend->pages(&pages)};
	if (out->exact) {
		out->held_bytes = (int64_t)pages.active_bytes;
		out->free_bytes = (int64_t)pages.dirty_bytes;
		return true;
	}
	if (backend->counting == MT_COUNTING_NONE || !mt_account_read(&totals))
		return false;
	out->held_bytes = (int64_t)totals.live_bytes;
	return true;
}

bool mt_reclaim_read_heap(struct mt_heap_size *out)
{
	return read_heap(true, out);
}

/* ---- comparing ---- */

/* A vfork child must neither wait nor take a lock here. The check is a system call, so make it only
 * before one of these. */
static bool is_on_parents_memory(void)
{
	return mt_state_is_on() && !mt_state_is_own_process();
}

/* Whether nobody can fill what the last sample found free before the worker has been here twice.
 * Blocks that are hardly touched may exceed the limit many times over while it is far. */
static bool is_far(const struct mt_ceiling *ceiling, uint64_t now_ns)
{
	int64_t left_ns = (ceiling->limit_bytes - ceiling->used_bytes) / FILL_BYTES_PER_NS;

	return ceiling->exact &&
	       left_ns > (int64_t)(now_ns - ceiling->sample_ns + 2 * FAR_PAUSE_NS);
}

bool mt_reclaim_count(uint64_t allocated_bytes)
{
	int64_t bytes = (int64_t)allocated_bytes;

	return mt_load_relaxed(&has_ceiling) && mt_sub_relaxed(&countdown_bytes, bytes) <= bytes;
}

/* Returns how many bytes may be allocated before only a new sample can tell whether the limit is
 * reached. */
static int64_t safe_bytes(const struct mt_ceiling *ceiling, const struct mt_reclaimable *left)
{
	int64_t used = mt_max_i64(ceiling->used_bytes, left->live_bytes);
	int64_t most = left->live_bytes + left->allowed_bytes - used - UNREPORTED_BYTES;

	if (ceiling->exact)
		return INT64_MAX;
	return mt_max_i64(most, ceiling->limit_bytes / MIN_SAFE_SHARE) -
	       mt_reclaim_unsampled_bytes();
}

/* The heap grows by no more than is allocated. Half of it, since blocks are smaller than the pages
 * that they lie in. */
static void update_countdown(const struct mt_ceiling *ceiling, const struct mt_reclaimable *left)
{
	int64_t to_allowed = left->allowed_bytes - left->free_bytes;
	int64_t to_sample = ceiling->sample_at_bytes - left->live_bytes - left->free_bytes;
	int64_t to_critical = ceiling->critical_bytes - left->live_bytes;
	int64_t countdown =
		mt_min_i64(mt_min_i64(to_allowed, to_sample), safe_bytes(ceiling, left)) / 2;

	if (to_critical > 0)
		countdown = mt_min_i64(countdown, to_critical / 2);
	mt_store_relaxed(&countdown_bytes, mt_max_i64(countdown, STEP_BYTES));
}

static void request_sample(void)
{
	mt_store_relaxed(&sample_requested, true);
	mt_control_notify(MT_CONTROL_GROWTH);
}

/* Counts a return of memory. If free memory is only estimated, all of it counts as returned
 * until the next sample. */
static void note_run(const struct mt_ceiling *ceiling, const struct mt_reclaimable *left,
		     uint64_t began_ns)
{
	struct mt_ceiling lower = *ceiling;

	if (!ceiling->exact) {
		lower.outside_bytes = ceiling->floor_bytes;
		lower.used_bytes = left->live_bytes;
		write_ceiling(&lower);
		mt_reclaim_unsampled_reset(left->live_bytes - ceiling->floor_bytes);
	}
	mt_add_relaxed(&runs_count, 1);
	mt_add_relaxed(&runs_ns, mt_os_now_ns() - began_ns);
}

/* Returns how long to wait: a thread with little new memory comes back with the next MB, a large
 * block counts at once. */
static uint64_t wait_ns(uint64_t fresh_bytes)
{
	uint64_t times = fresh_bytes / MT_MIB;

	return RECLAIM_WAIT_NS * (times < 1                 ? 1
				  : times > WAIT_FACTOR_MAX ? WAIT_FACTOR_MAX
							    : times);
}

/* If many threads allocate and free large blocks at once, one of them returns memory, and the
 * worker what comes after it. */
static bool is_left_to_worker(const struct mt_ceiling *ceiling, uint64_t now_ns)
{
	uint64_t began_ns = mt_load_relaxed(&run_began_ns);

	if (mt_thread_is_ours())
		return false;
	if (now_ns < began_ns + FAR_PAUSE_NS && is_far(ceiling, now_ns)) {
		mt_store_relaxed(&is_left, true);
		return true;
	}
	mt_store_relaxed(&run_began_ns, now_ns);
	return false;
}

static void reclaim(const struct mt_ceiling *ceiling, const struct mt_reclaimable *left,
		    uint64_t keep_bytes, uint64_t timeout_ns)
{
	uint64_t began_ns = mt_os_now_ns();
	struct mt_heap_size after;

	if (is_left_to_worker(ceiling, began_ns)) {
		request_sample();
		return;
	}
	if (is_on_parents_memory() || mt_heap_purge_copies(false) ||
	    mt_heap_reclaim(keep_bytes, timeout_ns) != MT_RECLAIMED_SOME)
		return;
	mt_reclaim_note_purge();
	if (ceiling->exact && mt_reclaim_read_heap(&after) && after.free_bytes < left->free_bytes)
		mt_cleanup_add_program_bytes((uint64_t)(left->free_bytes - after.free_bytes));
	note_run(ceiling, left, began_ns);
	request_sample();
}

/* Asks Python to collect garbage, once each time that the limit comes close, and then every
 * COLLECT_NS. The worker may be too late: a program can fill the rest of its limit within a tenth
 * of a second (docs/decisions/0001). */
static void collect_garbage(const struct mt_ceiling *ceiling, const struct mt_reclaimable *left,
			    uint64_t now)
{
	uint64_t due = mt_load_relaxed(&collect_ns);

	if (left->live_bytes < ceiling->clear_bytes && due)
		mt_store_relaxed(&collect_ns, 0);
	if (left->live_bytes < ceiling->critical_bytes || now < due)
		return;
	if (atomic_compare_exchange_strong_explicit(&collect_ns, &due, now + COLLECT_NS,
						    memory_order_relaxed, memory_order_relaxed) &&
	    mt_state_is_own_process() && mt_interpreter_collect_soon(mt_backend()->flush_thread))
		request_sample();
}

static bool may_wait(void)
{
	return !mt_thread_is_ours() && !is_on_parents_memory();
}

/* Waits for the first sample of a new worker: on a busy machine the program could fill its limit
 * before. */
static bool is_limit_known(void)
{
	if (read_ceiling().limit_bytes)
		return true;
	mt_store_relaxed(&countdown_bytes, INITIAL_BYTES);
	return may_wait() && mt_reclaim_unsampled_await_sample(request_sample, RECLAIM_WAIT_NS) &&
	       read_ceiling().limit_bytes;
}

/* Much may have been freed before a large block was allocated. */
static void note_live(const struct mt_heap_size *heap, int64_t step_bytes)
{
	if (heap->fresh_bytes >= 2 * step_bytes)
		mt_reclaim_unsampled_add(heap->held_bytes - heap->fresh_bytes, step_bytes);
	mt_reclaim_unsampled_add(heap->held_bytes, step_bytes);
}

/* Reads the heap. Its pages may be known only since the sample: they are compared only with a
 * sample in pages. */
static bool read_reclaimable(uint64_t fresh_bytes, struct mt_ceiling *ceiling,
			     struct mt_reclaimable *out)
{
	struct mt_heap_size heap;

	*ceiling = read_ceiling();
	if (!read_heap(ceiling->exact, &heap) || heap.exact != ceiling->exact)
		return false;
	heap.fresh_bytes = (int64_t)fresh_bytes;
	if (!heap.exact)
		note_live(&heap, ceiling->limit_bytes / TURNOVER_SHARE);
	*out = mt_reclaim_ceiling_reclaimable(ceiling, &heap);
	return true;
}

static void compare(uint64_t fresh_bytes)
{
	uint64_t now = mt_os_now_ns();
	struct mt_ceiling ceiling;
	struct mt_reclaimable left;

	if (!is_limit_known())
		return;
	if (!read_reclaimable(fresh_bytes, &ceiling, &left))
		return;
	/* Twice: a sample that is under way may have measured before. */
	for (int i = 0; i < 2 && safe_bytes(&ceiling, &left) <= 0 && may_wait() &&
			mt_reclaim_unsampled_await_sample(request_sample, RECLAIM_WAIT_NS);
	     i++)
		if (!read_reclaimable(fresh_bytes, &ceiling, &left))
			return;
	update_countdown(&ceiling, &left);
	if (!mt_thread_is_ours())
		collect_garbage(&ceiling, &left, now);
	/* Half of the allowed bytes may stay, else the thread would be here again with the next
	 * MB. */
	if (mt_reclaim_ceiling_is_passed(&ceiling, &left, now))
		reclaim(&ceiling, &left, (uint64_t)left.allowed_bytes / 2, wait_ns(fresh_bytes));
	else if (left.live_bytes + left.free_bytes >= ceiling.sample_at_bytes &&
		 now - ceiling.sample_ns >= SAMPLE_PAUSE_NS)
		request_sample();
}

MT_COLD void mt_reclaim_run(uint64_t fresh_bytes)
{
	int kept = errno;

	/* A fork waits for threads inside the loader, no longer than a walk takes: no reclaim
	 * there. */
	if (!mt_thread_is_ours() && !mt_loader_is_inside() && !mt_raw_clone_is_child())
		compare(fresh_bytes);
	errno = kept;
}

/* Returns free memory that an unmapped block would have left to other processes. A small amount
 * beside the limit stays: the program will use it again. */
static void reclaim_after_free(void)
{
	struct mt_ceiling ceiling;
	struct mt_reclaimable left;
	int64_t most;

	if (!read_reclaimable(0, &ceiling, &left) || !ceiling.exact)
		return;
	most = mt_min_i64(ceiling.limit_bytes / FREE_MAX_SHARE,
			  ceiling.limit_bytes - left.live_bytes - left.free_bytes);
	if (left.free_bytes > most && left.free_bytes >= STEP_BYTES)
		reclaim(&ceiling, &left, most > 0 ? (uint64_t)most / 2 : 0, FREE_WAIT_NS);
}

MT_COLD void mt_reclaim_after_large_free(void)
{
	int kept = errno;

	if (mt_load_relaxed(&has_ceiling) && !mt_thread_is_ours() && !mt_loader_is_inside() &&
	    !mt_raw_clone_is_child())
		reclaim_after_free();
	errno = kept;
}

void mt_reclaim_note_purge(void)
{
	mt_store_relaxed(&memory_was_returned, true);
}

/* ---- worker thread ---- */

bool mt_reclaim_wants_sample(uint64_t now_ns, uint64_t *wake_ns)
{
	struct mt_ceiling ceiling = read_ceiling();
	uint64_t due_ns = ceiling.sample_ns + FAR_PAUSE_NS;

	if (!mt_load_relaxed(&sample_requested))
		return false;
	if (now_ns >= due_ns || !is_far(&ceiling, now_ns))
		return true;
	*wake_ns = mt_min_u64(*wake_ns, due_ns);
	return false;
}

void mt_reclaim_expect_sample(void)
{
	const struct mt_ceiling unknown = {0};

	write_ceiling(&unknown);
	mt_store_relaxed(&countdown_bytes, INITIAL_BYTES);
	mt_store_relaxed(&has_ceiling, true);
}

bool mt_reclaim_begin_sample(void)
{
	mt_assert(mt_thread_is_ours());
	mt_store_relaxed(&sample_requested, false);
	mt_reclaim_unsampled_begin_sample();
	return mt_exchange_relaxed(&memory_was_returned, false);
}

void mt_reclaim_set_ceiling(const struct mt_headroom_sample *sample)
{
	struct mt_ceiling ceiling;

	mt_assert(sample->limit_bytes);
	mt_reclaim_headroom_update(&headroom, sample, &ceiling);
	write_ceiling(&ceiling);
	mt_store_relaxed(&has_ceiling, true);
	mt_store_relaxed(&countdown_bytes, STEP_BYTES);
	mt_reclaim_unsampled_end_sample();
}

void mt_reclaim_run_on_worker(void)
{
	if (!mt_load_relaxed(&has_ceiling))
		return;
	mt_assert(mt_thread_is_ours());
	compare(0);
	if (mt_exchange_relaxed(&is_left, false))
		reclaim_after_free();
}

void mt_reclaim_disable(void)
{
	mt_store_relaxed(&has_ceiling, false);
	mt_store_relaxed(&sample_requested, false);
	mt_reclaim_unsampled_end_sample();
	headroom = (struct mt_headroom){0};
}

void mt_reclaim_read_counters(uint64_t *out_count, uint64_t *out_ns)
{
	*out_count = mt_load_relaxed(&runs_count);
	*out_ns = mt_load_relaxed(&runs_ns);
}

void mt_reclaim_fork_child(void)
{
	mt_reclaim_disable();
	mt_store_relaxed(&memory_was_returned, false);
	mt_store_relaxed(&collect_ns, 0);
	mt_store_relaxed(&runs_count, 0);
	mt_store_relaxed(&runs_ns, 0);
}
