/* gpu/component.c -- the component: the device pool in ticks, cleanups and figures. Calls to the
 * driver are made on the thread of gpu/driver.h, or, `here`, on the calling thread of the program.
 * And the start of the pool at the first call of a wrapper. */
#include <errno.h>
#include <stdlib.h>

#include "core/components.h"
#include "core/config.h"
#include "core/control_file.h"
#include "core/init.h"
#include "core/publish.h"
#include "core/services.h"
#include "core/worker.h"
#include "gpu/capture.h"
#include "gpu/driver.h"
#include "gpu/frameworks.h"
#include "gpu/oom.h"
#include "gpu/pool.h"
#include "gpu/stats.h"
#include "gpu/unpooled.h"
#include "gpu/lookup.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/saturating.h"

enum state { STATE_NONE, STATE_STARTING, STATE_RUNS, STATE_OFF };
static _Atomic int state;

/* Pool and all threads run: nothing is left to start. release/acquire with what was started. */
static _Atomic bool is_awake;

/* This thread is starting the pool: the loader may call the program's malloc, which may come back
 * to us. */
static MT_TLS bool is_starting;

/* Returns whether the pool has started, here and not only in the parent. */
static bool pool_is_used(void)
{
	return mt_load_acquire(&state) == STATE_RUNS;
}

static enum mt_pool_mode decide_mode(bool *out_waits)
{
	struct mt_frameworks_verdict verdict = mt_frameworks_look();

	*out_waits = verdict.waits;
	return verdict.mode;
}

/* released at once, each by a call to the driver; then threads that wait for the memory go on */
#define TICK_BLOCKS   64u
#define TICK_NS       (50 * MT_NS_PER_MS) /* for such rounds, one after another; then a pause */
#define LEAST_STEP_NS (250 * MT_NS_PER_MS)
#define USED_NS       (60 * MT_NS_PER_S) /* how long a measurement of the used memory counts */

static uint64_t next_ns; /* when the pool wants to run again */
/* a cleanup came during a capture and is made up for at its end; order: none needed */
static _Atomic bool flush_pending;
static unsigned long long loads_seen;

/* ---- jobs; their data is static, see gpu/driver.h. A cleanup here and one of the worker may both
 * write it, with the same meaning. Order: none needed ---- */

static _Atomic uint64_t job_used_bytes, job_used_ns; /* as measured last, and when */
static _Atomic bool job_flushed;
static uint64_t job_next_ms; /* worker thread only */

/* What is not free of the devices in use. If none could be read, as during a capture, the last
 * figure stays. */
static void measure_job(void)
{
	struct mt_gpu_device devices[MT_DEVICES_COUNT];
	int count = mt_gpu_stats_read(devices, MT_DEVICES_COUNT), read_count = 0;
	uint64_t used = 0;

	for (int i = 0; i < count; i++) {
		if (!devices[i].free_bytes)
			continue;
		used += mt_sat_sub(devices[i].total_bytes, devices[i].free_bytes);
		read_count++;
	}
	if (!read_count)
		return;
	mt_store_relaxed(&job_used_bytes, used);
	mt_store_relaxed(&job_used_ns, mt_os_now_ns());
}

static void flush_job(void)
{
	(void)mt_pool_trim(MT_ANY_DEVICE);
	mt_store_relaxed(&job_flushed, mt_gpu_stats_trim_pools(MT_ANY_DEVICE));
}

static void tick_job(void)
{
	uint64_t start_ns = mt_os_now_ns(), now_ns = start_ns;

	while (mt_pool_tick(now_ns, TICK_BLOCKS, &job_next_ms) && now_ns - start_ns < TICK_NS)
		now_ns = mt_os_now_ns();
}

/* Runs the job on the driver thread, or here; false: it was not run. A cancelled
 * thread would leave the gate closed: cancellation is off during the job. */
static bool run_job(void (*job)(void), bool here)
{
	int cancel, mode;

	if (!here)
		return mt_driver_thread_run(job);
	cancel = mt_driver_forbid_cancel();
	mode = mt_driver_relax(mt_driver_usable());
	job();
	mt_driver_restore(mt_driver_usable(), mode);
	mt_driver_allow_cancel(cancel);
	return true;
}

/* ---- replies to other components ---- */

static bool have_context(void)
{
	const struct mt_driver *driver = mt_driver_usable();
	struct CUctx_st *context = NULL;

	return driver && driver->cuCtxGetCurrent &&
	       driver->cuCtxGetCurrent(&context) == MT_CU_SUCCESS && context;
}

/* If the driver does not reply in time, or a capture has begun, the figure of a cleanup's start
 * stands: 0 after it would say that everything has gone back. */
static uint64_t used_bytes(bool here)
{
	(void)run_job(measure_job, here);
	return mt_os_now_ns() - mt_load_relaxed(&job_used_ns) < USED_NS
		       ? mt_load_relaxed(&job_used_bytes)
		       : 0;
}

static const struct mt_devices_ops ops = {
	.are_used = pool_is_used,
	.are_capturing = mt_capture_is_open,
	.have_context = have_context,
	.thread_runs = mt_driver_thread_runs,
	.used_bytes = used_bytes,
	.live_bytes = mt_gpu_stats_live_bytes,
	.rows = mt_gpu_stats_rows,
};

/* ---- the start of the pool ---- */

/* Returns whether the start is the caller's. While another thread starts the pool, its end is near,
 * and nothing in it waits for us; but it may be of a lower real-time priority on this very CPU, so
 * that the wait must end in sleep. */
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
		mt_driver_wait_round(round);
	}
}

static bool start_pool(void)
{
	const struct mt_driver *driver;
	int seen = mt_load_acquire(&state);

	if (seen == STATE_RUNS || seen == STATE_OFF)
		return seen == STATE_RUNS;
	if (mt_config()->cuda == MT_CUDA_OFF) {
		mt_store_release(&state, STATE_OFF);
		return false;
	}
	/* Binding waits for the loader's lock, whose holder may be a constructor that comes here
	 * too: never with the start in hand. Once it is bound nothing below asks the loader. */
	if (is_starting || !mt_driver_usable())
		return false;
	if (!take_start())
		return pool_is_used();
	mt_lock_check_enter(MT_RANK_gpu_start);
	is_starting = true;
	driver = mt_driver_usable();
	if (driver) {
		mt_pool_start(driver, decide_mode);
		mt_services_set_devices(&ops);
	}
	is_starting = false;
	mt_lock_check_leave(MT_RANK_gpu_start);
	mt_store_release(&state, driver ? STATE_RUNS : STATE_NONE);
	return driver != NULL;
}

/* ---- the end of the process ---- */

/* The driver takes itself down: our thread makes no further call, and of what it gives back to the
 * driver no more than the block in hand. A cleanup at the end itself runs on the thread that ends,
 * and gives back as ever. */
static void stop_driver_thread(void)
{
	if (!mt_state_is_own_process())
		return;
	mt_store_relaxed(&mt_pool.pauses_release, true);
	if (mt_driver_thread_stop())
		mt_store_relaxed(&mt_pool.pauses_release, false);
}

/* Exit handlers run last in, first out: ours, of the first allocation, before those of the driver's
 * initialisation. */
static void stop_at_exit(void)
{
	static _Atomic bool is_registered; /* a forked child inherits that too */

	if (!mt_exchange_relaxed(&is_registered, true))
		(void)atexit(stop_driver_thread);
}

/* A process that touches CUDA gets its worker however small it is. */
static MT_COLD bool start(void)
{
	int kept_errno = errno;
	bool runs, threads;

	mt_init_start_heap();
	runs = mt_state_is_on() && mt_state_is_own_process() && start_pool();
	if (runs) {
		stop_at_exit();
		/* The driver's own calls go through this thread's descriptors: a thread of the
		 * program starts it. */
		threads = mt_worker_is_main_watched() && mt_driver_thread_start();
		threads = mt_init_start_worker() && threads;
		mt_store_release(&is_awake, threads);
		if (threads) {
			(void)mt_frameworks_look();
			mt_control_notify(MT_CONTROL_DEVICES);
		}
	}
	errno = kept_errno;
	return runs;
}

bool mt_wrapper_is_on(void)
{
	mt_lock_check_foreign_call("the end of the entry before");
	return mt_load_acquire(&is_awake) || start();
}

/* ---- cleanups ---- */

/* Page-locked host memory that the program holds of CUDA, by our count. */
static uint64_t pinned_bytes(void)
{
	struct mt_unpooled_usage usage;
	uint64_t bytes = 0;

	for (int device = 0; device < (int)MT_DEVICES_COUNT; device++) {
		mt_unpooled_usage(device, &usage);
		bytes += usage.live_bytes[MT_UNPOOLED_pinned];
	}
	return bytes;
}

/* Releases everything idle: our pool, the driver's own pools. MT_GPU_CAPTURING: the tick does so
 * once no capture is open. */
static enum mt_gpu_state flush(bool here)
{
	enum mt_gpu_state result = MT_GPU_NONE;

	if (pool_is_used() && mt_capture_is_open())
		result = MT_GPU_CAPTURING;
	else if (pool_is_used() && run_job(flush_job, here))
		result = mt_load_relaxed(&job_flushed) ? MT_GPU_DONE : MT_GPU_CAPTURING;
	mt_store_relaxed(&flush_pending, result == MT_GPU_CAPTURING);
	return result;
}

static void prepare_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	if (!pool_is_used() || cleanup->skips_for_ranks || !mt_components_reach_devices(request))
		return;
	cleanup->stats.gpu_before_bytes = used_bytes(request->here);
	cleanup->stats.pinned_before_bytes = pinned_bytes();
}

/* After Python: what the frameworks release lies in our pool. */
static void trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	struct mt_stats_cleanup *stats = &cleanup->stats;

	if (cleanup->skips_for_ranks || !mt_components_reach_devices(request))
		return;
	stats->gpu_state = flush(request->here);
	if (stats->gpu_state == MT_GPU_NONE && stats->frameworks)
		stats->gpu_state = MT_GPU_DONE;
	if (cleanup->caches_skipped)
		stats->gpu_state = MT_GPU_CAPTURING;
	stats->gpu_after_bytes = stats->gpu_before_bytes ? used_bytes(request->here) : 0;
	stats->pinned_after_bytes = pool_is_used() ? pinned_bytes() : 0;
}

/* ---- the tick ---- */

/* A framework may have been loaded since: its cache then lies on top of the pool. The loaded
 * objects are read only if there are new ones. */
static void look_at_loads(void)
{
	unsigned long long loads = mt_loader_load_count();

	if (loads == loads_seen)
		return;
	loads_seen = loads;
	mt_pool_update_mode();
	mt_publish_set_cuda(mt_frameworks_look().text, (uint32_t)mt_driver_version());
}

/* With nothing cached there is nothing to do before the program frees a block. A decay shorter than
 * the worker's longest sleep would then come too late: the worker sleeps no longer than the decay.
 */
static uint64_t next_without_cache(uint64_t now_ns)
{
	uint64_t decay_ns = mt_config()->cuda_decay_ms * MT_NS_PER_MS;

	if (!decay_ns || decay_ns >= 5 * MT_NS_PER_S)
		return UINT64_MAX;
	return now_ns + mt_max_u64(decay_ns, LEAST_STEP_NS);
}

static uint64_t tick_pool(uint64_t now_ns)
{
	look_at_loads();
	if (mt_load_relaxed(&flush_pending) && flush(false) == MT_GPU_CAPTURING)
		return now_ns + LEAST_STEP_NS;
	if (!mt_pool_cached_bytes(MT_ANY_DEVICE)) {
		next_ns = 0;
		return next_without_cache(now_ns);
	}
	if (now_ns < next_ns)
		return next_ns;
	if (!mt_driver_thread_run(tick_job))
		next_ns = now_ns + MT_NS_PER_S;
	else if (job_next_ms >= UINT64_MAX / MT_NS_PER_MS - now_ns / MT_NS_PER_MS)
		next_ns = 0;
	else
		next_ns = now_ns + job_next_ms * MT_NS_PER_MS;
	return next_ns ? next_ns : UINT64_MAX;
}

static uint64_t tick(uint64_t now_ns, uint32_t bits)
{
	uint64_t next;

	if (!pool_is_used())
		return UINT64_MAX;
	if ((bits & MT_CONTROL_OOM) && mt_oom_has_report()) {
		mt_gpu_stats_publish(true);
		mt_oom_finish(false);
	}
	next = mt_min_u64(tick_pool(now_ns), mt_gpu_stats_tick(now_ns));
	next = mt_min_u64(next, mt_gpu_rescue_tick(now_ns));
	return mt_min_u64(next, mt_oom_tick(now_ns));
}

/* ---- the other hooks ---- */

static bool request(const struct mt_request *wanted, enum mt_err *out)
{
	if (wanted->kind != MT_REQUEST_SNAPSHOT)
		return false;
	*out = pool_is_used() ? mt_gpu_stats_write_blocks() : MT_ERR_NOT_AVAILABLE;
	return true;
}

static void configure(void)
{
	next_ns = 0;
}

static void publish(bool full)
{
	if (!pool_is_used())
		return;
	mt_gpu_stats_publish(full);
	mt_gpu_rescue_publish();
}

static void stop(void)
{
	if (pool_is_used())
		mt_oom_finish(true);
}

/* In a child of a process that has used the driver, wrappers hand their calls on, and no hook does
 * anything: mt_driver_usable() is NULL, so that the pool never starts. So no lock of gpu/ is taken
 * there, whoever held it, and none of its tables is written: a signal handler that forks may return
 * into the wrapper that it has interrupted. */
static void fork_child(void)
{
	mt_driver_fork_child();
	if (mt_load_relaxed(&state) == STATE_NONE || mt_load_relaxed(&state) == STATE_OFF)
		return;
	mt_store_relaxed(&state, STATE_NONE);
	mt_store_relaxed(&is_awake, false);
	mt_services_set_devices(NULL);
	mt_pool_fork_child();
	mt_driver_thread_fork_child();
}

const struct mt_component mt_gpu_component = {
	.name = "gpu",
	.fork_child = fork_child,
	.tick = tick,
	.request = request,
	.configure = configure,
	.prepare_trim = prepare_trim,
	.trim = trim,
	.publish = publish,
	.reset_peak = mt_pool_reset_peak,
	.stop = stop,
};
