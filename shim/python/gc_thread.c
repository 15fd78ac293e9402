#include "python/gc_thread.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "python/cpython.h"

#define SLEEPER_STACK_BYTES (64 * 1024)
/* finalizers run on it: as much as a thread of the program has by default */
#define STACK_BYTES (8 * MT_MIB)
#define WAIT_NS     MT_NS_PER_S

static struct mt_thread sleeper;
static struct mt_thread collector;
static _Atomic int sleeper_id; /* 0 before it runs; no ordering */

/* What the sleeper shall do; no ordering. */
enum { NOTHING, ASKED, LEAVE };
static _Atomic uint32_t wanted;

/* Written before the sleeper starts. */
static bool (*may_enter)(void);
static void (*collect)(void);

/* 1: a collector is between may_enter and its thread state. Sequentially consistent, against the
 * state that may_enter reads. */
static _Atomic uint32_t is_entering;

/* PyGILState_Ensure would do the same, but hides the moment at which the thread state is there.
 * From then on Python knows the thread, and deals with it at its end. */
static void *enter(void)
{
	void *state = NULL;

	mt_assert(may_enter && collect);
	atomic_store(&is_entering, 1);
	if (may_enter())
		state = mt_cpython.PyThreadState_New(mt_cpython.PyInterpreterState_Main());
	atomic_store(&is_entering, 0);
	mt_os_futex_wake(&is_entering, INT_MAX, MT_FUTEX_PRIVATE);
	return state;
}

/* If the interpreter ends, PyEval_RestoreThread or the collection may end the thread or never
 * return. The thread then still counts as running: no other one follows. */
static void *collect_main(void *unused)
{
	void *state = enter();

	(void)unused;
	if (state) {
		mt_cpython.PyEval_RestoreThread(state);
		collect();
		mt_cpython.PyThreadState_Clear(state);
		mt_cpython.PyThreadState_DeleteCurrent();
	}
	mt_thread_reset(&collector);
	return NULL;
}

static void *sleep_main(void *unused)
{
	uint32_t seen;

	(void)unused;
	mt_thread_mark_ours();
	(void)prctl(PR_SET_NAME, "mtshim-gc");
	mt_store_relaxed(&sleeper_id, mt_os_gettid());
	while ((seen = atomic_load(&wanted)) != LEAVE) {
		mt_lock_check_wait("a request");
		if (seen == NOTHING)
			(void)mt_os_futex_wait(&wanted, NOTHING, UINT64_MAX, MT_FUTEX_PRIVATE);
		else if (atomic_compare_exchange_strong(&wanted, &seen, NOTHING))
			(void)mt_thread_start(&collector, collect_main, STACK_BYTES);
	}
	mt_thread_reset(&sleeper);
	return NULL;
}

void mt_gc_thread_start(bool (*given_may_enter)(void), void (*given_collect)(void))
{
	if (mt_gc_thread_runs() || !mt_cpython_find() || !mt_cpython.is_whole)
		return;
	may_enter = given_may_enter;
	collect = given_collect;
	atomic_store(&wanted, NOTHING);
	(void)mt_thread_start(&sleeper, sleep_main, SLEEPER_STACK_BYTES);
}

bool mt_gc_thread_runs(void)
{
	return mt_thread_is_running(&sleeper);
}

void mt_gc_thread_stop(void)
{
	uint64_t until = mt_os_now_ns() + WAIT_NS;
	int id;

	if (!mt_gc_thread_runs())
		return;
	atomic_store(&wanted, LEAVE);
	mt_os_futex_wake(&wanted, INT_MAX, MT_FUTEX_PRIVATE);
	/* Until the kernel lists it no more: the caller may make room for a call that needs a
	 * process of one thread. */
	while (mt_os_now_ns() < until &&
	       (mt_gc_thread_runs() || ((id = mt_load_relaxed(&sleeper_id)) &&
					mt_raw_syscall(SYS_tgkill, mt_os_getpid(), id, 0) == 0)))
		mt_os_sleep_ns(MT_NS_PER_MS);
}

bool mt_gc_thread_ask(void)
{
	uint32_t nothing = NOTHING;

	if (!mt_gc_thread_runs())
		return false;
	if (!mt_thread_is_running(&collector) &&
	    atomic_compare_exchange_strong(&wanted, &nothing, ASKED))
		mt_os_futex_wake(&wanted, 1, MT_FUTEX_PRIVATE);
	return true;
}

void mt_gc_thread_let_enter(void)
{
	uint64_t until = mt_os_now_ns() + WAIT_NS;

	while (atomic_load(&is_entering) && mt_os_now_ns() < until)
		(void)mt_os_futex_wait(&is_entering, 1, MT_NS_PER_MS, MT_FUTEX_PRIVATE);
}

void mt_gc_thread_fork_child(void)
{
	mt_thread_reset(&sleeper);
	mt_thread_reset(&collector);
	mt_store_relaxed(&sleeper_id, 0);
	mt_store_relaxed(&is_entering, 0);
}
