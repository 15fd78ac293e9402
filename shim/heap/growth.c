#include "heap/growth.h"

#include <errno.h>

#include "core/config.h"
#include "core/init.h"
#include "core/services.h"
#include "core/state.h"
#include "core/worker.h"
#include "heap/account.h"
#include "heap/backend.h"
#include "heap/entries.h"
#include "heap/trim.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"

/* Reading the resident size costs as much as a hundred allocations. Each time it is still small the
 * distance to the next reading doubles, up to 64 MB of allocations: a process that only churns
 * large buffers would do little else. */
#define LONGEST_STEPS 16u

/* counters, no ordering */
static _Atomic uint64_t counted_bytes;  /* since the last step */
static _Atomic uint32_t steps;          /* since the last check */
static _Atomic uint32_t distance = 1;   /* steps between two checks */
static _Atomic bool has_failed;         /* to start the worker */
static _Atomic uint64_t malloced_bytes; /* by all threads, as their events tell */
/* free when this process was forked: its parent's, too */
static _Atomic uint64_t inherited_bytes;

/* Live bytes too: they may not be touched yet. */
static bool is_live_enough(uint64_t least_bytes)
{
	struct mt_account_totals totals;

	return mt_account_read(&totals) && totals.live_bytes >= least_bytes;
}

/* Returns the bytes that are free and resident: over libc's malloc, and while the heap is just
 * starting, of Python's objects only. */
static uint64_t free_bytes(void)
{
	const struct mt_backend *backend = mt_backend();
	struct mt_heap_figures pages = {0};
	struct mt_object_heap_figures objects;

	if (backend && backend->pages && backend->pages(&pages))
		return pages.dirty_bytes;
	mt_object_heap_read(&objects, false);
	return objects.dirty_bytes;
}

/* So much has not gone back by purge_small. */
static bool is_much_free(void)
{
	return free_bytes() >= mt_load_relaxed(&inherited_bytes) + mt_config()->min_mb * MT_MIB / 4;
}

bool mt_growth_is_large(void)
{
	uint64_t least_bytes = mt_config()->min_mb * MT_MIB;
	struct mt_rss_quick rss;

	return least_bytes == 0 || (mt_rss_read_quick(&rss) && rss.anon_bytes >= least_bytes) ||
	       is_live_enough(least_bytes) || is_much_free();
}

static void check_later(bool failed)
{
	uint32_t now = mt_load_relaxed(&distance);

	mt_store_relaxed(&has_failed, failed);
	mt_store_relaxed(&steps, 0);
	if (now < LONGEST_STEPS)
		mt_store_relaxed(&distance, 2 * now);
}

static void start_worker(void *unused)
{
	(void)unused;
	if (!mt_init_start_worker())
		check_later(true);
}

static void start_interpreters_thread(void *unused)
{
	(void)unused;
	mt_interpreter_start_thread();
}

/* The start of a thread needs 5 kB of stack, which a coroutine may not have. */
MT_COLD void mt_growth_note(void)
{
	if (!mt_state_is_on())
		return;
	if (mt_worker_is_running())
		mt_components_grown();
	if (!mt_state_is_own_process())
		return;
	if (!mt_worker_is_running() && !mt_growth_is_large())
		check_later(false);
	else if (!mt_worker_is_running())
		mt_os_own_stack_call(start_worker, NULL);
	else if (mt_interpreter_wants_thread())
		mt_os_own_stack_call(start_interpreters_thread, NULL);
}

static bool is_check_due(void)
{
	return mt_add_relaxed(&steps, 1) + 1 >= mt_load_relaxed(&distance);
}

static bool is_due(void)
{
	return is_check_due() || (!mt_load_relaxed(&has_failed) &&
				  (is_live_enough(mt_config()->min_mb * MT_MIB) || is_much_free()));
}

/* Returns whether the bytes complete a step. */
static bool count(uint64_t fresh_bytes)
{
	uint64_t sum = fresh_bytes + mt_add_relaxed(&counted_bytes, fresh_bytes);

	if (mt_likely(sum < MT_GROWTH_STEP_BYTES))
		return false;
	mt_store_relaxed(&counted_bytes, 0);
	return true;
}

/* Counts the bytes and tells a running worker. Returns whether mt_growth_note is due. */
static bool note_bytes(uint64_t fresh_bytes)
{
	if (!count(fresh_bytes))
		return false;
	if (!mt_worker_is_running())
		return is_due();
	mt_components_grown();
	return mt_interpreter_wants_thread();
}

/* A program may make its one large block and never call malloc again. Not for smaller ones: libc
 * makes some of its own under locks that the start of a thread takes. */
void mt_growth_allocated(uint64_t fresh_bytes)
{
	int kept = errno;

	mt_add_relaxed(&malloced_bytes, fresh_bytes);
	if (!note_bytes(fresh_bytes))
		return;
	if (fresh_bytes >= MT_GROWTH_STEP_BYTES)
		mt_growth_note();
	else
		mt_heap_event_at_next_call(true);
	errno = kept;
}

/* ---- free memory of a process without a worker ---- */

/* It is small, or the kernel refuses the worker (RLIMIT_NPROC, pids.max, SCHED_DEADLINE). Free
 * memory goes back on the thread that frees, for up to MT_BUDGET_PCT of the time. What cannot go
 * back so is a reason to start the worker, which returns it once the process rests. */

#define PURGE_WAIT_NS (10 * MT_NS_PER_MS)
/* what a purge costs, with the page faults by which the program takes the pages back: so many times
 * its own time */
#define FAULTS_SHARE 6u
/* free and resident: less is not worth a purge */
#define FREE_LEAST_BYTES MT_MIB
/* Memory that was taken back within this time was purged in vain. After some such purges in turn
 * there is a pause, which doubles with each, unless twice as much is free as in any of them. */
#define VAIN_NS        (50 * MT_NS_PER_MS)
#define VAIN_MOST      4u
#define PAUSE_LEAST_NS (20 * MT_NS_PER_MS)
#define PAUSES_MOST    6u

/* No ordering: two threads may purge at once. */
static _Atomic uint64_t pause_end_ns, purged_ns, paid_ns;
static _Atomic uint32_t vain_count;
static _Atomic uint64_t vain_bytes;    /* the most that was free before a purge in vain */
static _Atomic uint64_t objects_bytes; /* pages that Python's objects have taken */

/* at the last purge: of this thread, and of any */
static MT_TLS uint64_t purged_own_bytes;
static _Atomic uint64_t purged_malloced_bytes; /* no ordering */

/* Returns whether a MB was allocated since the last purge. A thread that only frees returns what
 * others take. */
static bool is_refilled(void)
{
	uint64_t own = mt_account_own_allocated() + mt_load_relaxed(&objects_bytes);
	uint64_t all = mt_load_relaxed(&malloced_bytes);
	uint64_t fresh =
		mt_max_u64(own - purged_own_bytes,
			   mt_sat_sub(all, mt_exchange_relaxed(&purged_malloced_bytes, all)));

	purged_own_bytes = own;
	return fresh >= FREE_LEAST_BYTES;
}

static uint64_t pause_after(uint32_t vain)
{
	return vain > VAIN_MOST ? PAUSE_LEAST_NS << mt_min_u64(vain - VAIN_MOST, PAUSES_MOST) : 0;
}

/* Returns how long the next purge waits. What one call after another frees is one purge. */
static uint64_t count_vain(uint64_t now_ns, uint64_t free_before)
{
	uint64_t since_ns = mt_sat_sub(now_ns, mt_exchange_relaxed(&purged_ns, now_ns));
	uint32_t vain = mt_load_relaxed(&vain_count);

	if (is_refilled())
		vain = since_ns < pause_after(vain) + VAIN_NS ? vain + 1 : 0;
	mt_store_relaxed(&vain_count, vain);
	mt_store_relaxed(&vain_bytes, vain ? mt_max_u64(free_before, mt_load_relaxed(&vain_bytes))
					   : free_before);
	return pause_after(vain);
}

static void purge_small(void *free_before)
{
	uint64_t budget_pct = mt_config()->budget_pct; /* once: it may become 0 at any time */
	uint64_t now_ns = mt_os_now_ns();
	uint64_t began_ns = mt_os_thread_cpu_ns(); /* getrusage(2) lags by up to a tick */

	mt_assert(mt_backend());
	if (!budget_pct)
		return;
	if (mt_backend()->pages)
		(void)mt_heap_reclaim(0, PURGE_WAIT_NS);
	else
		mt_heap_reclaim_objects();
	mt_heap_pay(&paid_ns, now_ns, budget_pct,
		    mt_sat_sub(mt_os_thread_cpu_ns(), began_ns) * FAULTS_SHARE);
	mt_store_relaxed(&pause_end_ns, now_ns + count_vain(now_ns, *(uint64_t *)free_before));
}

static bool is_purge_due(uint64_t free_now)
{
	uint64_t now_ns;

	if (free_now < mt_load_relaxed(&inherited_bytes))
		mt_store_relaxed(&inherited_bytes, free_now);
	if (free_now < mt_load_relaxed(&inherited_bytes) + FREE_LEAST_BYTES ||
	    !mt_config()->budget_pct)
		return false;
	now_ns = mt_os_now_ns();
	return now_ns >= mt_load_relaxed(&paid_ns) &&
	       (now_ns >= mt_load_relaxed(&pause_end_ns) ||
		free_now >= 2 * mt_load_relaxed(&vain_bytes));
}

/* Starts nothing here: the thread is inside the allocator, and is_due takes a lock. A running
 * worker is told of allocated bytes alone: these would end a step without telling it. Purges
 * nothing: jemalloc may be just beginning with the thread, or ending. */
void mt_growth_without_worker(uint64_t bytes)
{
	if (!mt_worker_is_running() && count(bytes) &&
	    (is_check_due() || (!mt_load_relaxed(&has_failed) && is_much_free())))
		mt_heap_event_at_next_call(true);
}

void mt_growth_freed(uint64_t bytes)
{
	int kept = errno;
	uint64_t free_now;

	if (mt_worker_is_running())
		return;
	mt_growth_without_worker(bytes);
	free_now = free_bytes();
	if (is_purge_due(free_now) && mt_state_is_on() && mt_state_is_own_process() &&
	    !mt_loader_is_inside())
		mt_os_own_stack_call(purge_small, &free_now);
	errno = kept;
}

/* A program that works on small objects alone may not call malloc for long: its size is read
 * here. */
static void objects_grew(uint64_t bytes)
{
	int kept = errno;

	if (!bytes) {
		mt_growth_freed(0);
		return;
	}
	mt_add_relaxed(&objects_bytes, bytes);
	if (note_bytes(bytes))
		mt_growth_note();
	mt_account_event_objects(bytes);
	errno = kept;
}

void mt_growth_begin(void)
{
	mt_object_heap_listen(objects_grew, mt_heap_reclaim_objects);
}

void mt_growth_fork_child(void)
{
	bool at_once = mt_config()->min_mb == 0;

	mt_thread_counters.next_event_bytes =
		at_once ? 0 : mt_thread_counters.allocated_bytes + MT_GROWTH_STEP_BYTES;
	mt_store_relaxed(&counted_bytes, 0);
	mt_store_relaxed(&steps, 0);
	mt_store_relaxed(&distance, 1);
	mt_store_relaxed(&has_failed, false);
	mt_store_relaxed(&inherited_bytes, free_bytes());
	mt_store_relaxed(&pause_end_ns, 0);
	mt_store_relaxed(&vain_count, 0);
	mt_heap_event_at_next_call(at_once);
}
