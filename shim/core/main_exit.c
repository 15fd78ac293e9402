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
#include "core/main_status.h"
#include "core/worker.h"
#include "core/thread.h"

#define STEP_NS (20 * MT_NS_PER_MS)
/* so often in a row they could not be counted: a second */
#define BLIND_STEPS 50
#define STACK_BYTES (8 * MT_MIB) /* the program's exit handlers run on it */

static struct mt_thread thread;
static sigset_t programs_mask; /* of the main thread */

uint64_t mt_main_exit_own_threads(void)
{
	return (uint64_t)mt_worker_is_running() + mt_devices_thread_runs() +
	       mt_thread_runs(&thread);
}

static void nap_for(uint64_t span_ns)
{
	static _Atomic uint32_t nobody_rings;

	(void)mt_os_futex_wait(&nobody_rings, 0, span_ns, MT_FUTEX_PRIVATE);
}

static void nap(void)
{
	nap_for(STEP_NS);
}

/* True when nobody is left; false when they could not be counted for a while. */
static bool see_the_last_go(void)
{
	unsigned int blind = 0;

	while (blind < BLIND_STEPS || mt_devices_thread_runs()) {
		/* Ours first: one that starts in between is then somebody to wait for, not one who
		 * is missing. */
		uint64_t own = (uint64_t)mt_worker_is_running() + mt_devices_thread_runs();
		char text[1024];
		bool known = mt_os_read_file("/proc/self/stat", text, sizeof(text)) > 0;

		if (known && mt_main_status_is_last(text, own))
			return true;
		blind = known ? 0 : blind + 1;
		nap();
	}
	return false;
}

/* libc has its last thread call exit, which flushes stdout: not the worker, which has no
 * descriptors. So it is gone before this thread is; the last nap is for where the kernel may not be
 * asked whether it is. */
static void let_worker_go(void)
{
	mt_worker_leave();
	while (mt_worker_is_leaving())
		nap();
	nap();
}

static void *wait_for_last(void *unused)
{
	if (see_the_last_go()) {
		/* No signal of the program's was for us; the handlers of its end are its own. */
		pthread_sigmask(SIG_SETMASK, &programs_mask, NULL);
		exit(0);
	}
	mt_log(MT_LOG_INFO, "the main thread has ended, and nobody can be counted here: no "
			    "cleanups from now on");
	let_worker_go();
	return unused;
}

void mt_main_exit_begin(void)
{
	mt_main_thread_forget();
	pthread_sigmask(SIG_SETMASK, NULL, &programs_mask);
	if (!mt_thread_start(&thread, wait_for_last, STACK_BYTES))
		let_worker_go();
}

void mt_main_exit_fork_child(void)
{
	mt_thread_forget(&thread);
}

/* flag, no ordering: the threads that read it are the main thread, or were started by it */
static _Atomic bool is_watched;

void mt_main_exit_note_watched(bool watched)
{
	atomic_store_explicit(&is_watched, watched, memory_order_relaxed);
}

bool mt_main_exit_is_watched(void)
{
	return atomic_load_explicit(&is_watched, memory_order_relaxed);
}
