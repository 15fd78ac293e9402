/* purge/purge.c -- the component: the tick of the purge policy, rounds, and cleanups by signal. */
#include <stdbool.h>

#include "core/cleanup.h"
#include "core/components.h"
#include "core/config.h"
#include "core/control_file.h"
#include "core/log.h"
#include "purge/purge.h"
#include "sys/atomic.h"
#include "sys/os.h"
#include "sys/saturating.h"

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
	mt_purge_growth_note();
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
	mt_purge_growth_tick();
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
	mt_purge_growth_fork_child();
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
