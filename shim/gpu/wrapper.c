#include "gpu/wrapper.h"

#include <errno.h>
#include <stdlib.h>

#include "core/config.h"
#include "core/control_file.h"
#include "core/init.h"
#include "core/worker.h"
#include "gpu/pool.h"
#include "gpu/frameworks.h"
#include "gpu/driver.h"
#include "sys/atomic.h"
#include "sys/attr.h"

enum state { STATE_NONE, STATE_STARTING, STATE_RUNS, STATE_OFF };
static _Atomic int state;

/* Pool and all threads run: nothing is left to start. release/acquire with what was started. */
static _Atomic bool is_awake;

/* This thread is starting the pool: the loader may call the program's malloc, which may come back
 * to us. */
static MT_TLS bool is_starting;

/* ---- settings ---- */

static enum mt_pool_mode decide_mode(bool *out_waits)
{
	struct mt_frameworks_verdict verdict = mt_frameworks_look();

	*out_waits = verdict.waits;
	return verdict.mode;
}

void mt_wrapper_fill_settings(struct mt_pool_settings *out)
{
	const struct mt_config *cfg = mt_config();

	*out = (struct mt_pool_settings){
		.decay_ms = cfg->cuda_decay_ms,
		.low_free_pct = cfg->cuda_low_pct,
		.mode = decide_mode,
	};
}

/* ---- the pool ---- */

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
	struct mt_pool_settings settings;
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
		return mt_wrapper_is_used();
	mt_lock_check_enter(MT_RANK_gpu_start);
	is_starting = true;
	driver = mt_driver_usable();
	if (driver) {
		mt_wrapper_fill_settings(&settings);
		mt_pool_start(driver, &settings);
	}
	is_starting = false;
	mt_lock_check_leave(MT_RANK_gpu_start);
	mt_store_release(&state, driver ? STATE_RUNS : STATE_NONE);
	return driver != NULL;
}

bool mt_wrapper_is_used(void)
{
	return mt_load_acquire(&state) == STATE_RUNS;
}

/* ---- the end of the process ---- */

/* The driver takes itself down: our thread makes no further call, and of what it gives back to the
 * driver no more than the block in hand. A cleanup at the end itself runs on the thread that ends,
 * and gives back as ever. */
static void stop(void)
{
	if (!mt_state_is_own_process())
		return;
	mt_pool_pause_release(true);
	if (mt_driver_thread_stop())
		mt_pool_pause_release(false);
}

/* Exit handlers run last in, first out: ours, of the first allocation, before those of the driver's
 * initialisation. */
static void stop_at_exit(void)
{
	static _Atomic bool is_registered; /* a forked child inherits that too */

	if (!mt_exchange_relaxed(&is_registered, true))
		(void)atexit(stop);
}

/* ---- all of it ---- */

/* A process that touches CUDA gets its worker however small it is. */
static MT_COLD bool start(void)
{
	int kept_errno = errno;
	bool is_used, threads;

	mt_init_start_heap();
	is_used = mt_state_is_on() && mt_state_is_own_process() && start_pool();
	if (is_used) {
		stop_at_exit();
		/* The driver's own calls go through this thread's descriptors: a thread of the
		 * program starts it. */
		threads = mt_worker_is_main_watched() && mt_driver_thread_start();
		threads = mt_init_start_worker() && threads;
		mt_store_release(&is_awake, threads);
		if (threads) {
			(void)mt_frameworks_look_rescue();
			mt_control_notify(MT_CONTROL_DEVICES);
		}
	}
	errno = kept_errno;
	return is_used;
}

bool mt_wrapper_is_on(void)
{
	mt_lock_check_foreign_call("the end of the entry before");
	return mt_load_acquire(&is_awake) || start();
}

bool mt_wrapper_fork_child(void)
{
	int seen = mt_load_relaxed(&state);

	if (seen == STATE_NONE || seen == STATE_OFF)
		return false;
	mt_store_relaxed(&state, STATE_NONE);
	mt_store_relaxed(&is_awake, false);
	return true;
}
