/* purge/purge.c -- the component: the tick of the purge policy, rounds, cleanups by signal, and
 * purges by threads that grow. */
#include "purge/purge.h"

#include <limits.h>

#include "core/cleanup.h"
#include "core/components.h"
#include "core/config.h"
#include "core/control_file.h"
#include "core/log.h"
#include "core/state.h"
#include "core/thread.h"
#include "core/worker.h"
#include "heap/account.h"
#include "heap/backend.h"
#include "heap/trim.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/main_thread.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* ---- growth ---- */

#define GROWTH_BYTES (32 * MT_MIB)
#define FREE_BYTES   (16 * MT_MIB) /* less is not worth a purge */
/* free bytes are purged once the heap has grown by this part of them */
#define GROWTH_PART 16
/* the least that purging 1 MiB and its page faults cost: huge pages, which are cheap, may have been
 * measured */
#define LEAST_MIB_COST_NS (300 * 1000ull)
#define RECLAIM_WAIT_NS   (10 * MT_NS_PER_MS)
/* A purge on a thread of the program takes some 10 ms for it: the worker purges more. */
#define OWN_BYTES (128 * MT_MIB)
/* how long threads that grow wait for the worker, in steps of RECLAIM_WAIT_NS */
#define LEFT_WAIT_NS (200 * MT_NS_PER_MS)

/* Growth counts from here: active and dirty pages together, and the fewest free bytes since then.
 * No ordering: a thread that reads an old value purges a little too early or too late. */
static _Atomic uint64_t base_bytes = UINT64_MAX;
static _Atomic uint64_t idle_bytes;
static _Atomic uint64_t seen_bytes = UINT64_MAX;         /* as base_bytes, at the last check */
static _Atomic uint64_t next_purge_ns;                   /* no purge before; no ordering */
static _Atomic uint64_t mib_cost_ns = LEAST_MIB_COST_NS; /* no ordering */
static _Atomic uint32_t is_left;    /* 1: a purge is left to the worker. Futex, no ordering */
static _Atomic uint64_t spent_ns;   /* counter, no ordering */
static _Atomic uint64_t left_at_ns; /* no ordering: a thread waits a step too long or too short */

static bool read_heap(uint64_t *out_bytes, uint64_t *out_free_bytes)
{
	const struct mt_backend *backend = mt_backend();
	struct mt_heap_figures pages = {0};

	if (!backend->pages || !backend->pages(&pages))
		return false;
	*out_bytes = pages.active_bytes + pages.dirty_bytes;
	*out_free_bytes = pages.dirty_bytes;
	return true;
}

static void count_from(uint64_t bytes, uint64_t free_bytes)
{
	mt_store_relaxed(&base_bytes, bytes);
	mt_store_relaxed(&idle_bytes, free_bytes);
}

/* Only pages that stay free while the heap grows are worth a purge: those that the program is about
 * to reuse do not count. If the free bytes were few, growth counts from the last check on, and not
 * from now: a large block that the thread has just made may come after pages were freed. */
static bool is_due(uint64_t bytes, uint64_t free_bytes)
{
	uint64_t base = mt_load_relaxed(&base_bytes);
	uint64_t idle = mt_min_u64(mt_load_relaxed(&idle_bytes), free_bytes);
	uint64_t seen = mt_exchange_relaxed(&seen_bytes, bytes);

	if (bytes < base || idle < FREE_BYTES) {
		base = mt_min_u64(bytes, seen);
		idle = free_bytes;
	}
	count_from(base, idle);
	return idle >= FREE_BYTES &&
	       bytes >= mt_sat_add(base, mt_max_u64(GROWTH_BYTES, idle / GROWTH_PART));
}

/* A fork waits for threads inside the loader; a child on its parent's memory must hold no lock. */
static bool may_purge(void)
{
	return !mt_thread_is_ours() && !mt_loader_is_inside() && !mt_raw_clone_is_child() &&
	       mt_state_is_on() && mt_state_is_own_process() && !mt_heap_purge_copies(false);
}

/* Returns whether this thread is the one that purges. may_purge makes a system call: not before it
 * is time. */
static bool begin(uint64_t free_bytes)
{
	uint64_t budget_pct = mt_config()->budget_pct; /* once: it may become 0 at any time */
	uint64_t now_ns = mt_os_now_ns();
	uint64_t due_ns = mt_load_relaxed(&next_purge_ns);
	uint64_t pause_ns;

	if (!budget_pct)
		return false;
	pause_ns = free_bytes / MT_MIB * mt_load_relaxed(&mib_cost_ns) * 100 / budget_pct;
	return now_ns >= due_ns && may_purge() &&
	       atomic_compare_exchange_strong_explicit(&next_purge_ns, &due_ns, now_ns + pause_ns,
						       memory_order_relaxed, memory_order_relaxed);
}

static void purge_for_growth_here(uint64_t free_before)
{
	uint64_t began_ns = mt_os_thread_cpu_ns();
	enum mt_reclaimed got = mt_heap_reclaim(0, RECLAIM_WAIT_NS);
	uint64_t bytes, free_bytes;

	mt_add_relaxed(&spent_ns, mt_sat_sub(mt_os_thread_cpu_ns(), began_ns));
	if (got != MT_RECLAIMED_SOME || !read_heap(&bytes, &free_bytes))
		return;
	count_from(bytes, free_bytes);
	mt_cleanup_add_program_bytes(mt_sat_sub(free_before, free_bytes));
	mt_account_event_purged();
}

static void leave_to_worker(void)
{
	mt_store_relaxed(&left_at_ns, mt_os_now_ns());
	mt_store_relaxed(&is_left, 1);
	mt_control_notify(MT_CONTROL_GROWTH);
}

/* Growth that does not wait would be done before the worker is. */
static MT_COLD void wait_for_worker(void)
{
	if (mt_os_now_ns() < mt_load_relaxed(&left_at_ns) + LEFT_WAIT_NS && may_purge())
		(void)mt_os_futex_wait(&is_left, 1, RECLAIM_WAIT_NS, MT_FUTEX_PRIVATE);
}

static MT_COLD void purge_for_growth(uint64_t free_bytes)
{
	if (!begin(free_bytes))
		return;
	if (free_bytes <= OWN_BYTES || !mt_worker_is_running()) {
		purge_for_growth_here(free_bytes);
		return;
	}
	leave_to_worker();
	wait_for_worker();
}

/* The heap may have grown by some MB. Purges if it has grown by 32 MB, and by a 16th of the
 * bytes that stayed free meanwhile. Then pauses until MT_BUDGET_PCT of the time covers the cost.
 * If more than 128 MB are free, the worker purges, and threads that grow wait up to 10 ms at each
 * call, 200 ms in all. */
static void growth_note(void)
{
	uint64_t bytes, free_bytes;

	if (mt_load_relaxed(&is_left))
		wait_for_worker();
	else if (read_heap(&bytes, &free_bytes) && mt_unlikely(is_due(bytes, free_bytes)))
		purge_for_growth(free_bytes);
}

static void growth_tick(void)
{
	uint64_t bytes, free_bytes;

	mt_assert(mt_thread_is_ours());
	if (!mt_load_relaxed(&is_left))
		return;
	if (read_heap(&bytes, &free_bytes))
		purge_for_growth_here(free_bytes);
	mt_store_relaxed(&is_left, 0);
	mt_os_futex_wake(&is_left, INT_MAX, MT_FUTEX_PRIVATE);
}

void mt_purge_growth_set_cost(uint64_t ns)
{
	mt_assert(mt_thread_is_ours());
	mt_store_relaxed(&mib_cost_ns, mt_max_u64(ns, LEAST_MIB_COST_NS));
}

uint64_t mt_purge_growth_take_cost(void)
{
	return mt_exchange_relaxed(&spent_ns, 0);
}

/* ---- the component ---- */

/* growth_wakes_worker: the next tick is far away. has_grown: growth since the last tick. seq_cst
 * both: either the growing thread sees the flag, or the worker sees the growth and wakes itself. */
static _Atomic bool growth_wakes_worker;
static _Atomic bool has_grown;
static uint64_t next_tick_ns; /* worker thread */
static uint64_t started_ns;   /* worker thread; 0 before the first worker of the process */
static bool missing_logged;   /* worker thread; when the program ends, its last thread */

static void grown(void)
{
	atomic_store(&has_grown, true);
	if (atomic_load(&growth_wakes_worker))
		mt_control_notify(MT_CONTROL_GROWTH);
	growth_note();
}

static void run_tick(bool has_grown_much)
{
	uint64_t now_ns = mt_os_now_ns();

	if (!has_grown_much && now_ns < next_tick_ns)
		return;
	atomic_store(&has_grown, false);
	next_tick_ns = now_ns + mt_tick_run(has_grown_much);
}

static void arm_growth_wakeup(void)
{
	uint64_t soon_ns = mt_os_now_ns() + 2 * mt_config()->tick_ms * MT_NS_PER_MS;

	atomic_store(&growth_wakes_worker, next_tick_ns > soon_ns);
	if (atomic_load(&has_grown) && mt_load_relaxed(&growth_wakes_worker))
		mt_control_notify(MT_CONTROL_GROWTH);
}

/* Logs once that a preset waits for rounds. uptime_ns: as mt_rounds_are_missing has it. */
static void log_missing_rounds(uint64_t uptime_ns)
{
	char preset[16];

	if (missing_logged || !mt_rounds_are_missing(mt_config(), mt_rounds_count(), uptime_ns))
		return;
	missing_logged = true;
	mt_config_format(mt_config(), MT_OPTION_preset, preset, sizeof(preset));
	mt_log(MT_LOG_INFO,
	       "MT_PRESET=%s cleans up by rounds, and no round has ended: call mtshim.round(), or "
	       "add mtshim.integrations.nvflare or mtshim.integrations.flower, or set MT_ROUND",
	       preset);
}

static uint64_t tick(uint64_t now_ns, uint32_t bits)
{
	uint64_t next_ns;

	mt_store_relaxed(&growth_wakes_worker, false);
	if ((bits & MT_CONTROL_SIGNAL) && mt_cleanup_requested_may_run(now_ns)) {
		mt_control_clear_bits(MT_CONTROL_SIGNAL);
		mt_round_end_handle_signal();
	}
	growth_tick();
	mt_round_end_check_timer(now_ns);
	log_missing_rounds(mt_sat_sub(now_ns, started_ns));
	run_tick(bits & MT_CONTROL_GROWTH);
	mt_round_end_run_cleanup(mt_tick_in_use_bytes);
	arm_growth_wakeup();
	next_ns = mt_round_end_next_ns();
	return mt_min_u64(next_ns, next_tick_ns);
}

uint64_t mt_purge_started_ns(void)
{
	return started_ns;
}

static void start(void)
{
	bool is_first = !started_ns;

	if (is_first) {
		next_tick_ns = 0;
		started_ns = mt_os_now_ns();
	}
	mt_tick_start(is_first);
}

static bool request(const struct mt_request *wanted, enum mt_err *out)
{
	if (wanted->kind != MT_REQUEST_ROUND)
		return false;
	(void)mt_rounds_end();
	*out = MT_ERR_OK;
	return true;
}

static void stop(void)
{
	const struct mt_trim_request wanted = {
		.reason = MT_REASON_EXIT, .level = MT_LEVEL_LIGHT, .here = true};
	struct mt_stats_cleanup cleanup;

	log_missing_rounds(UINT64_MAX);
	if (mt_config()->exit_cleanup)
		mt_cleanup_run(&wanted, &cleanup);
}

static void fork_child(void)
{
	mt_rounds_fork_child();
	count_from(UINT64_MAX, 0);
	mt_store_relaxed(&next_purge_ns, 0);
	mt_store_relaxed(&is_left, 0);
	started_ns = 0;
	missing_logged = false;
	mt_store_relaxed(&growth_wakes_worker, false);
	mt_store_relaxed(&has_grown, false);
}

const struct mt_component mt_purge_component = {
	.name = "purge",
	.start = start,
	.grown = grown,
	.fork_child = fork_child,
	.tick = tick,
	.request = request,
	.cleaned = mt_tick_note_cleanup,
	.refresh = mt_tick_refresh,
	.reset_peak = mt_tick_reset_peak,
	.stop = stop,
};
