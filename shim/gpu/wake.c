#include "gpu/wake.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/init.h"
#include "core/main_exit.h"
#include "gpu/gpu.h"
#include "gpu/thread.h"
#include "sys/attr.h"
#include "sys/lock_check.h"

static _Atomic bool will_stop; /* registered; a forked child inherits that too */

static void stop(void)
{
	if (mt_state_is_own_process())
		mt_gpu_stop();
}

/* Exit handlers run last in, first out: ours, of the first allocation, before those of the driver's
 * initialisation. */
static void stop_at_exit(void)
{
	if (!atomic_exchange_explicit(&will_stop, true, memory_order_relaxed))
		(void)atexit(stop);
}

/* A process that touches CUDA gets its worker however small it is. */
MT_COLD static bool start(void)
{
	int kept = errno;
	bool threads;

	mt_init_start_heap();
	if (!mt_state_is_on() || !mt_state_is_own_process() || !mt_gpu_start()) {
		errno = kept;
		return false;
	}
	stop_at_exit();
	/* The driver's own calls go through this thread's descriptors: it must be the program's
	 * that starts it. */
	threads = mt_main_exit_is_watched() && mt_gpu_thread_start();
	threads = mt_init_start_worker() && threads;
	atomic_store_explicit(&mt_gpu_is_awake, threads, memory_order_release);
	errno = kept;
	return true;
}

bool mt_gpu_wake(void)
{
	mt_lock_check_foreign_call("the end of the entry before");
	return atomic_load_explicit(&mt_gpu_is_awake, memory_order_acquire) || start();
}
