#include "core/main_exit.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/raw_syscall.h"
#include "core/log.h"
#include "sys/main_thread.h"
#include "sys/os.h"
#ifndef MT_NO_CUDA
#include "gpu/thread.h"
#endif
#include "core/worker.h"
#include "core/thread.h"

#define STEP_NS     (20 * MT_NS_PER_MS)
#define BLIND_STEPS 50 /* so often in a row they could not be counted: a second */

/* Source: proc(5). */
#define STATE_FIELD   3
#define THREADS_FIELD 20
#define EXIT_FIELD    52 /* as wait(2) has it */

/* naps of a ms until the kernel has taken the main thread apart */
#define ZOMBIE_TRIES 1000

#define STACK_BYTES (8 * MT_MIB) /* the program's exit handlers run on it */

static struct mt_thread thread;
static sigset_t programs_mask; /* of the main thread */

static bool is_zombie(const char *stat)
{
	const char *state = mt_os_stat_at(stat, STATE_FIELD);

	return state && (*state == 'Z' || *state == 'X');
}

/* The ended main thread counts until the process is gone. Before it is a zombie its other key
 * destructors run. */
bool mt_main_exit_is_last(const char *stat, uint64_t own_threads)
{
	const char *threads = mt_os_stat_at(stat, THREADS_FIELD);
	uint64_t count = threads ? mt_os_number(threads) : 0;

	return is_zombie(stat) && count > 0 && count <= 2 + own_threads;
}

/* The thread that calls the driver is never ended: it may be inside. */
static bool driver_thread_runs(void)
{
#ifndef MT_NO_CUDA
	return mt_gpu_thread_runs();
#else
	return false;
#endif
}

uint64_t mt_main_exit_own_threads(void)
{
	return (uint64_t)mt_worker_is_running() + driver_thread_runs() + mt_thread_runs(&thread);
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

/* A seccomp filter that kills one thread ends a process of one thread by the signal. */
static void die_by(int sig)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	sigset_t only;

	sigemptyset(&only);
	sigaddset(&only, sig);
	(void)sigaction(sig, &plain, NULL);
	pthread_sigmask(SIG_UNBLOCK, &only, NULL);
	(void)mt_raw_syscall(SYS_tgkill, mt_os_getpid(), mt_os_gettid(), sig);
}

void mt_main_exit_follow_main(void)
{
	char text[1024] = "";
	uint64_t status;

	for (int tries = 0; tries < ZOMBIE_TRIES && !is_zombie(text); tries++) {
		if (mt_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0)
			return;
		nap_for(MT_NS_PER_MS);
	}
	if (!mt_main_exit_is_last(text, driver_thread_runs()))
		return;
	status = mt_os_stat_field_of(text, EXIT_FIELD);
	if (status & 0x7f)
		die_by((int)(status & 0x7f));
	/* Newer kernels take the status of the last thread for that of the process, older ones the
	 * main thread's. */
	mt_raw_syscall(SYS_exit, status >> 8 & 0xff);
}

/* True when nobody is left; false when they could not be counted for a while. */
static bool see_the_last_go(void)
{
	unsigned int blind = 0;

	while (blind < BLIND_STEPS || driver_thread_runs()) {
		/* Ours first: one that starts in between is then somebody to wait for, not one who
		 * is missing. */
		uint64_t own = (uint64_t)mt_worker_is_running() + driver_thread_runs();
		char text[1024];
		bool known = mt_os_read_file("/proc/self/stat", text, sizeof(text)) > 0;

		if (known && mt_main_exit_is_last(text, own))
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
