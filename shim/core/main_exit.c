#include "core/main_exit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "core/log.h"
#include "core/services.h"
#include "core/thread.h"
#include "core/worker.h"
#include "sys/atomic.h"
#include "sys/main_thread.h"
#include "sys/os.h"

#define STEP_NS (20 * MT_NS_PER_MS)
/* failed counts in a row before it gives up: one second */
#define FAILURES_MAX 50
#define STACK_BYTES  (8 * MT_MIB) /* the program's exit handlers run on it */

static struct mt_thread end_thread; /* waits until only threads of the shim are left */
static sigset_t main_mask;          /* of the main thread */

/* All but the one that waits for the end. */
static uint64_t count_other_threads(void)
{
	return (uint64_t)mt_worker_is_running() + mt_devices_thread_runs() +
	       mt_interpreter_thread_runs();
}

uint64_t mt_main_exit_own_threads(void)
{
	return count_other_threads() + mt_thread_is_running(&end_thread);
}

/* Waits until only threads of the shim are left. Returns false if they could not be counted for
 * a second. */
static bool wait_until_last(void)
{
	unsigned int failures = 0;

	while (failures < FAILURES_MAX || mt_devices_thread_runs()) {
		/* The shim's threads first: one that starts in between then counts as a thread to
		 * wait for. */
		uint64_t own = count_other_threads();
		char text[1024];
		bool known = mt_os_read_file("/proc/self/stat", text, sizeof(text)) > 0;

		if (known && mt_main_thread_is_last(text, own))
			return true;
		failures = known ? 0 : failures + 1;
		mt_os_sleep_ns(STEP_NS);
	}
	return false;
}

static void *wait_for_end(void *unused)
{
	if (wait_until_last()) {
		/* The shim's threads block all signals; the program's exit handlers run with its
		 * own mask. */
		pthread_sigmask(SIG_SETMASK, &main_mask, NULL);
		exit(0);
	}
	mt_log(MT_LOG_INFO, "the main thread has ended and the threads cannot be counted: no "
			    "cleanups from now on");
	mt_worker_end();
	return unused;
}

void mt_main_exit_handle(void)
{
	mt_main_thread_forget();
	if (mt_os_own_procstat_number(MT_PROCSTAT_THREADS) == 1u + mt_worker_is_running() &&
	    mt_worker_pause())
		return;
	pthread_sigmask(SIG_SETMASK, NULL, &main_mask);
	if (!mt_thread_start(&end_thread, wait_for_end, STACK_BYTES))
		mt_worker_end();
}

void mt_main_exit_fork_child(void)
{
	mt_thread_reset(&end_thread);
}

/* flag, no ordering: only the main thread and threads that it started read it */
static _Atomic bool is_watched;

void mt_main_exit_note_watched(bool watched)
{
	mt_store_relaxed(&is_watched, watched);
}

bool mt_main_exit_is_watched(void)
{
	return mt_load_relaxed(&is_watched);
}
