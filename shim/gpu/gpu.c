#include "gpu/gpu.h"

#include <stdatomic.h>
#include <string.h>

#include "gpu/unpooled.h"
#include "core/config.h"
#include "sys/elf.h"
#include "sys/lock.h"
#include "core/log.h"
#include "sys/os.h"
#include "gpu/driver.h"
#include "gpu/capture.h"
#include "gpu/decay.h"
#include "gpu/pool.h"
#include "gpu/usage.h"
#include "gpu/wait.h"
#include "gpu/snapshot.h"
#include "gpu/stats.h"
#include "gpu/thread.h"
#include "gpu/oom.h"
#include "gpu/frameworks.h"
#include "gpu/devices.h"

/* given back in one go: each is a call into the driver */
#define TICK_BLOCKS   64u
#define TICK_PAUSE_NS (10 * MT_NS_PER_MS) /* and between two such goes */
#define LEAST_STEP_NS (250 * MT_NS_PER_MS)

enum state { STATE_NONE, STATE_STARTING, STATE_RUNS, STATE_OFF };
static _Atomic int state;
_Atomic bool mt_gpu_is_awake;

static uint64_t next_ns; /* when the pool wants to be looked at again */
/* one was asked for during a capture: made up for at its end. Order: none needed */
static _Atomic bool owes_flush;
static unsigned long long loads_seen;

/* ---- start ---- */

static enum mt_pool_mode decide_mode(void)
{
	return mt_frameworks_look().mode;
}

static void complain(const char *line)
{
	mt_log(MT_LOG_WARN, "%s", line);
}

static void fill_settings(struct mt_pool_settings *out)
{
	const struct mt_config *cfg = mt_config();

	*out = (struct mt_pool_settings){
		.decay_ms = cfg->cuda_decay_ms,
		.max_idle_bytes = cfg->cuda_max_mb * MT_MIB,
		.max_idle_pct = cfg->cuda_max_pct,
		.low_free_pct = cfg->cuda_low_pct,
		.mode = decide_mode,
	};
}

static void keep_quiet(const char *line)
{
	(void)line;
}

/* MT_CUDA_CONF cannot change while the process runs: what was wrong with it is said once. */
static void apply_conf(struct mt_pool_settings *settings, bool first)
{
	mt_pool_settings_parse(mt_config()->cuda_conf, settings, first ? complain : keep_quiet);
}

/* on this thread: the loader may call the program's malloc, which may come back to us */
static MT_TLS bool starting;

static bool start(void)
{
	const struct mt_driver *driver = mt_driver_usable();
	struct mt_pool_settings settings;

	if (!driver)
		return false;
	fill_settings(&settings);
	apply_conf(&settings, true);
	mt_pool_start(driver, &settings);
	loads_seen = mt_elf_load_count();
	return true;
}

/* True: the start is the caller's. While another thread is at it its end is near, and nothing in it
 * waits for us; but it may be of a lower real-time priority on this very CPU, so that asking again
 * must end in sleep. */
static bool take_start(void)
{
	for (unsigned round = 0;; round++) {
		int seen = STATE_NONE;

		if (atomic_compare_exchange_strong_explicit(&state, &seen, STATE_STARTING,
							    memory_order_acq_rel,
							    memory_order_acquire))
			return true;
		if (seen == STATE_RUNS || seen == STATE_OFF)
			return false;
		mt_wait_round(round);
	}
}

bool mt_gpu_start(void)
{
	bool done;
	int seen = atomic_load_explicit(&state, memory_order_acquire);

	if (seen == STATE_RUNS)
		return true;
	if (seen == STATE_OFF)
		return false;
	if (mt_config()->cuda == MT_CUDA_OFF) {
		atomic_store_explicit(&state, STATE_OFF, memory_order_release);
		return false;
	}
	if (starting)
		return false;
	/* Binding waits for the loader's lock, and who holds that may be a constructor that comes
	 * here too: never with the start in hand. Once it is bound nothing below asks the loader.
	 */
	if (!mt_driver_usable())
		return false;
	if (!take_start())
		return mt_gpu_is_used();
	mt_lock_check_enter(MT_RANK_gpu_start);
	starting = true;
	done = start();
	starting = false;
	mt_lock_check_leave(MT_RANK_gpu_start);
	if (!done) {
		atomic_store_explicit(&state, STATE_NONE, memory_order_release);
		return false;
	}
	atomic_store_explicit(&state, STATE_RUNS, memory_order_release);
	return true;
}

bool mt_gpu_is_used(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) == STATE_RUNS;
}

bool mt_gpu_capturing(void)
{
	return mt_gpu_is_used() && mt_capture_is_open();
}

bool mt_gpu_has_context(void)
{
	const struct mt_driver *driver = mt_gpu_is_used() ? mt_driver_usable() : NULL;
	struct CUctx_st *context = NULL;

	return driver && driver->cuCtxGetCurrent &&
	       driver->cuCtxGetCurrent(&context) == MT_CU_SUCCESS && context;
}

void mt_gpu_configure(void)
{
	struct mt_pool_settings settings;

	if (!mt_gpu_is_used())
		return;
	fill_settings(&settings);
	apply_conf(&settings, false);
	mt_pool_configure(&settings);
	next_ns = 0;
}

void mt_gpu_reset_peak(void)
{
	if (!mt_gpu_is_used())
		return;
	mt_pool_reset_peak();
	mt_unpooled_reset_peak();
}

/* ---- jobs: their data is static, see gpu/thread.h ---- */

static uint64_t job_used_bytes;
static bool job_flushed;
static uint64_t job_next_ms;

static void measure_job(void)
{
	job_used_bytes = mt_gpu_used_bytes();
}

static void flush_job(void)
{
	(void)mt_pool_trim();
	job_flushed = mt_gpu_trim_driver_pools();
}

static void tick_job(void)
{
	(void)mt_pool_tick(mt_os_now_ns(), TICK_BLOCKS, &job_next_ms);
}

uint64_t mt_gpu_used(bool here)
{
	uint64_t used;
	int cancel;
	int mode;

	if (!mt_gpu_is_used())
		return 0;
	if (!here)
		return mt_gpu_thread_run(measure_job) ? job_used_bytes : 0;
	cancel = mt_wait_uncancelled();
	mode = mt_gpu_thread_relax();
	used = mt_gpu_used_bytes();
	mt_gpu_thread_restore(mode);
	mt_wait_cancellable(cancel);
	return used;
}

uint64_t mt_gpu_pinned_bytes(void)
{
	struct mt_unpooled_usage usage;
	uint64_t bytes = 0;

	if (!mt_gpu_is_used())
		return 0;
	for (int device = 0; device < (int)MT_DEVICES_COUNT; device++) {
		mt_unpooled_usage(device, &usage);
		bytes += usage.live_bytes[MT_UNPOOLED_pinned];
	}
	return bytes;
}

static enum mt_gpu_state flush(bool here)
{
	bool done;
	int cancel;
	int mode;

	if (!mt_gpu_is_used())
		return MT_GPU_NONE;
	if (mt_capture_is_open())
		return MT_GPU_CAPTURING;
	if (!here) {
		done = mt_gpu_thread_run(flush_job);
		return !done ? MT_GPU_NONE : job_flushed ? MT_GPU_DONE : MT_GPU_CAPTURING;
	}
	/* the gate is held over calls that may be cancellation points */
	cancel = mt_wait_uncancelled();
	mode = mt_gpu_thread_relax();
	(void)mt_pool_trim();
	done = mt_gpu_trim_driver_pools();
	mt_gpu_thread_restore(mode);
	mt_wait_cancellable(cancel);
	return done ? MT_GPU_DONE : MT_GPU_CAPTURING;
}

enum mt_gpu_state mt_gpu_flush(bool here)
{
	enum mt_gpu_state result = flush(here);

	atomic_store_explicit(&owes_flush, result == MT_GPU_CAPTURING, memory_order_relaxed);
	return result;
}

/* ---- the tick ---- */

static bool has_cached(void)
{
	for (int device = 0; device < MT_POOL_DEVICES; device++)
		if (mt_pool_cached_bytes(device))
			return true;
	return false;
}

static bool has_live(void)
{
	struct mt_pool_usage usage;

	for (int device = 0; device < MT_POOL_DEVICES; device++) {
		mt_pool_usage(device, &usage);
		if (usage.blocks_count)
			return true;
	}
	return false;
}

/* A framework may have been loaded since: its cache then lies on top of ours. */
static void look_at_loads(void)
{
	unsigned long long loads = mt_elf_load_count();

	if (loads == loads_seen)
		return;
	loads_seen = loads;
	mt_pool_reconsider();
}

/* With nothing cached there is nothing to do before somebody frees a block; a decay shorter than
 * the worker's longest sleep would then come too late, so that it is slept no longer than that
 * while there are blocks to free. */
static uint64_t next_without_cache(uint64_t now_ns)
{
	uint64_t decay_ns = mt_config()->cuda_decay_ms * MT_NS_PER_MS;

	if (!decay_ns || decay_ns >= 5 * MT_NS_PER_S || !has_live())
		return UINT64_MAX;
	return now_ns + (decay_ns > LEAST_STEP_NS ? decay_ns : LEAST_STEP_NS);
}

static uint64_t pool_turn(uint64_t now_ns)
{
	look_at_loads();
	if (atomic_load_explicit(&owes_flush, memory_order_relaxed) &&
	    mt_gpu_flush(false) == MT_GPU_CAPTURING)
		return now_ns + LEAST_STEP_NS;
	if (!has_cached()) {
		next_ns = 0;
		return next_without_cache(now_ns);
	}
	if (now_ns < next_ns)
		return next_ns;
	job_next_ms = 0;
	if (!mt_gpu_thread_run(tick_job))
		next_ns = now_ns + MT_NS_PER_S;
	else if (job_next_ms >= UINT64_MAX / MT_NS_PER_MS - now_ns / MT_NS_PER_MS)
		next_ns = 0;
	else
		next_ns = now_ns + (job_next_ms ? job_next_ms * MT_NS_PER_MS : TICK_PAUSE_NS);
	return next_ns ? next_ns : UINT64_MAX;
}

uint64_t mt_gpu_tick(uint64_t now_ns)
{
	uint64_t next, snapshot_ns, oom_ns;

	if (!mt_gpu_is_used())
		return UINT64_MAX;
	next = pool_turn(now_ns);
	snapshot_ns = mt_gpu_snapshot_tick(now_ns);
	oom_ns = mt_oom_tick(now_ns);
	if (snapshot_ns < next)
		next = snapshot_ns;
	return oom_ns < next ? oom_ns : next;
}

void mt_gpu_publish(bool full)
{
	if (mt_gpu_is_used())
		mt_gpu_stats_publish(full);
}

uint32_t mt_gpu_devices(const struct mt_stats_device **out)
{
	*out = NULL;
	return mt_gpu_is_used() ? mt_gpu_stats_rows(out) : 0;
}

uint64_t mt_gpu_live_bytes(void)
{
	return mt_gpu_is_used() ? mt_gpu_stats_live_bytes() : 0;
}

enum mt_err mt_gpu_snapshot(void)
{
	return mt_gpu_is_used() ? mt_gpu_snapshot_write() : MT_ERR_NOT_AVAILABLE;
}

/* What is cleaned at the end itself is on the thread that ends, and goes back as ever. */
void mt_gpu_stop(void)
{
	mt_pool_hold_back(true);
	if (mt_gpu_thread_stop())
		mt_pool_hold_back(false);
}

void mt_gpu_finish_oom(bool at_end)
{
	if (mt_gpu_is_used())
		mt_oom_finish(at_end);
}

/* The driver cannot be used in a forked child; a mode that was OFF stays it. */
void mt_gpu_fork_child(void)
{
	if (atomic_load_explicit(&state, memory_order_relaxed) != STATE_OFF)
		atomic_store_explicit(&state, STATE_NONE, memory_order_relaxed);
	atomic_store_explicit(&mt_gpu_is_awake, false, memory_order_relaxed);
	mt_driver_fork_child();
	mt_pool_fork_child();
	mt_capture_fork_child();
	mt_unpooled_fork_child();
	mt_oom_fork_child();
	mt_gpu_thread_fork_child();
	mt_gpu_stats_fork_child();
	mt_gpu_snapshot_fork_child();
	next_ns = 0;
	atomic_store_explicit(&owes_flush, false, memory_order_relaxed);
}
