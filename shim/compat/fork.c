/* compat/fork.c -- libc promises that a signal handler may fork in a program of one thread, and
 * leaves out all of its own locks there. The worker thread must not take that away: the handler may
 * have interrupted fork, malloc or stdio of libc. So for fork libc counts the program's threads
 * only. Before glibc 2.36 its count cannot be set: there all signals are blocked during fork, so
 * that no handler interrupts fork. Source: SINGLE_THREAD_P in fork.c of glibc; tst-mallocfork2 of
 * its tests. */
#include "compat/compat.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/init.h"
#include "core/interpreter.h"
#include "core/worker.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/libc.h"
#include "sys/os.h"

MT_EXPORT pid_t fork(void);

typedef pid_t (*fork_fn)(void);

#define HOLD_NS      MT_NS_PER_S
#define HOLD_STEP_NS (MT_NS_PER_MS / 5)
/* A sleep that so many steps see is no short wait for a lock of the kernel's; in a program of more
 * threads, none for one of another thread that goes on. */
#define ASLEEP_STEPS      3
#define ASLEEP_STEPS_MANY 50

static _Atomic(fork_fn) next_fork; /* no ordering */

static MT_TLS bool holds_purge; /* for the fork under way */

/* The hold of the purge lock, by its number, in which the worker waits for this thread; 0: none. */
static MT_TLS uint32_t stuck_hold;

void mt_fork_start(void)
{
	mt_store_relaxed(&next_fork, (fork_fn)(uintptr_t)mt_symbol(RTLD_NEXT, "fork"));
	mt_libc_find_threads();
}

/* Returns whether the program has one thread, beside the worker and the thread of python/. */
static bool is_single_threaded(void)
{
	return mt_libc_threads_count() == 2u + mt_interpreter_thread_runs();
}

/* Returns whether the worker, while it has the purge lock, waits for this thread or one that is as
 * slow. */
static bool is_worker_stuck(void)
{
	return stuck_hold && stuck_hold == mt_purge_worker_hold();
}

bool mt_fork_hold_purge(void)
{
	uint64_t until = mt_os_now_ns() + HOLD_NS;
	int most = is_single_threaded() ? ASLEEP_STEPS : ASLEEP_STEPS_MANY;
	int asleep_count = 0;

	while (!is_worker_stuck()) {
		uint32_t hold = mt_purge_worker_hold();

		if (mt_purge_hold(HOLD_STEP_NS))
			return true;
		asleep_count = hold && mt_worker_is_asleep() && hold == mt_purge_worker_hold()
				       ? asleep_count + 1
				       : 0;
		if (asleep_count == most)
			stuck_hold = hold;
		if (mt_os_now_ns() >= until)
			return false;
	}
	return false;
}

/* The worker resets its state before libc stops counting it, so it never stands for a thread of the
 * program. */
static pid_t fork_beside_worker(fork_fn next)
{
	struct mt_libc_fork before;
	pid_t child;

	if (!is_single_threaded())
		return next();
	before = mt_libc_begin_fork_alone();
	child = next();
	mt_libc_end_fork_alone(before, child == 0);
	return child;
}

static pid_t fork_with_signals_blocked(fork_fn next)
{
	uint64_t signals = mt_os_block_signals();
	pid_t child = next();

	mt_os_restore_signals(signals);
	return child;
}

MT_EXPORT pid_t fork(void)
{
	fork_fn next = mt_load_relaxed(&next_fork);

	if (!next)
		next = (fork_fn)(uintptr_t)mt_elf_libc_function("fork");
	if (mt_state_is_on() && mt_worker_is_running() && mt_state_is_own_process())
		return mt_libc_knows_threads() ? fork_beside_worker(next)
					       : fork_with_signals_blocked(next);
	return next();
}

void mt_fork_prepare(void)
{
	holds_purge = mt_fork_hold_purge();
}

void mt_fork_parent(void)
{
	if (holds_purge)
		mt_purge_release();
}

void mt_fork_child(void)
{
	mt_purge_forget();
}
