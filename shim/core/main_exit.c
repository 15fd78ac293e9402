#include "core/main_exit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/raw_syscall.h"
#include "core/log.h"
#include "sys/main_thread.h"
#include "sys/os.h"
#include "core/devices.h"
#include "core/interpreter.h"
#include "core/worker.h"
#include "core/thread.h"

#define STEP_NS (20 * MT_NS_PER_MS)
/* failed counts in a row before it gives up: one second */
#define FAILURES_MAX 50
#define STACK_BYTES  (8 * MT_MIB) /* the program's exit handlers run on it */

static struct mt_thread thread;
static sigset_t main_mask; /* of the main thread */

/* All but the one that waits for the end. */
static uint64_t count_other_threads(void)
{
	return (uint64_t)mt_worker_is_running() + mt_devices_thread_runs() +
	       mt_interpreter_thread_runs();
}

uint64_t mt_main_exit_own_threads(void)
{
	return count_other_threads() + mt_thread_is_running(&thread);
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

/* Ends the worker before this thread. libc has its last thread call exit, which flushes stdout, and
 * the worker has no descriptors. The last sleep is for sandboxes in which the worker's end cannot
 * be seen. */
static void stop_worker(void)
{
	mt_worker_stop();
	while (mt_worker_is_alive())
		mt_os_sleep_ns(STEP_NS);
	mt_os_sleep_ns(STEP_NS);
}

static void *thread_main(void *unused)
{
	if (wait_until_last()) {
		/* The shim's threads block all signals; the program's exit handlers run with its
		 * own mask. */
		pthread_sigmask(SIG_SETMASK, &main_mask, NULL);
		exit(0);
	}
	mt_log(MT_LOG_INFO, "the main thread has ended and the threads cannot be counted: no "
			    "cleanups from now on");
	stop_worker();
	return unused;
}

void mt_main_exit_handle(void)
{
	mt_main_thread_forget();
	pthread_sigmask(SIG_SETMASK, NULL, &main_mask);
	if (!mt_thread_start(&thread, thread_main, STACK_BYTES))
		stop_worker();
}

void mt_main_exit_fork_child(void)
{
	mt_thread_reset(&thread);
}

/* flag, no ordering: only the main thread and threads that it started read it */
static _Atomic bool is_watched;

void mt_main_exit_note_watched(bool watched)
{
	atomic_store_explicit(&is_watched, watched, memory_order_relaxed);
}

bool mt_main_exit_is_watched(void)
{
	return atomic_load_explicit(&is_watched, memory_order_relaxed);
}
