/* gpu/thread.c -- the driver thread of gpu/driver.h. */
#include <limits.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "sys/atomic.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "gpu/driver.h"
#include "core/thread.h"

/* the driver's frames, and its loading of the management library, need it */
#define STACK_BYTES MT_MIB
#define JOB_NS      (5 * MT_NS_PER_S)
/* a process that ends waits this long for a job */
#define STOP_NS MT_NS_PER_S

static struct mt_thread thread;

/* JOB_ASKED: from the worker to the thread, release/acquire with `asked_job`. JOB_DONE: back, with
 * what the job has written. JOB_OVER: no further job; the last state. */
enum { JOB_NONE, JOB_ASKED, JOB_DONE, JOB_OVER };
static _Atomic uint32_t job_state;
static void (*asked_job)(void);

static void *thread_main(void *unused)
{
	(void)unused;
	mt_thread_mark_ours();
	(void)prctl(PR_SET_NAME, "mtshim-gpu");
	for (;;) {
		uint32_t seen = mt_load_acquire(&job_state);
		uint32_t asked = JOB_ASKED;

		if (seen != JOB_ASKED) {
			mt_lock_check_wait("a job");
			(void)mt_os_futex_wait(&job_state, seen, UINT64_MAX, MT_FUTEX_PRIVATE);
			continue;
		}
		/* Each time: the first job may come before the driver can be asked. */
		(void)mt_driver_relax(mt_driver_usable());
		asked_job();
		/* Unless it is over. */
		(void)atomic_compare_exchange_strong_explicit(
			&job_state, &asked, JOB_DONE, memory_order_release, memory_order_relaxed);
		mt_os_futex_wake(&job_state, INT_MAX, MT_FUTEX_PRIVATE);
	}
	return NULL;
}

bool mt_driver_thread_start(void)
{
	return mt_thread_start(&thread, thread_main, STACK_BYTES);
}

bool mt_driver_thread_runs(void)
{
	return mt_thread_is_running(&thread);
}

bool mt_driver_thread_is_free(void)
{
	uint32_t seen = mt_load_acquire(&job_state);

	return mt_driver_thread_runs() && seen != JOB_ASKED && seen != JOB_OVER;
}

bool mt_driver_thread_run(void (*job)(void))
{
	uint64_t now, until = mt_os_now_ns() + JOB_NS;
	uint32_t seen = mt_load_acquire(&job_state);

	if (!mt_driver_thread_is_free())
		return false;
	asked_job = job;
	if (!atomic_compare_exchange_strong_explicit(&job_state, &seen, JOB_ASKED,
						     memory_order_release, memory_order_relaxed))
		return false;
	mt_os_futex_wake(&job_state, 1, MT_FUTEX_PRIVATE);
	while ((seen = mt_load_acquire(&job_state)) == JOB_ASKED && (now = mt_os_now_ns()) < until)
		(void)mt_os_futex_wait(&job_state, JOB_ASKED, until - now, MT_FUTEX_PRIVATE);
	return seen == JOB_DONE;
}

bool mt_driver_thread_stop(void)
{
	uint64_t until = mt_os_now_ns() + STOP_NS;
	uint32_t seen = mt_load_acquire(&job_state);

	while (seen != JOB_OVER) {
		uint64_t now = mt_os_now_ns();

		if (seen == JOB_ASKED && now < until)
			(void)mt_os_futex_wait(&job_state, JOB_ASKED, until - now,
					       MT_FUTEX_PRIVATE);
		else if (atomic_compare_exchange_strong_explicit(&job_state, &seen, JOB_OVER,
								 memory_order_acq_rel,
								 memory_order_acquire))
			return seen != JOB_ASKED;
		seen = mt_load_acquire(&job_state);
	}
	return true;
}

void mt_driver_thread_fork_child(void)
{
	mt_thread_reset(&thread);
	mt_store_relaxed(&job_state, JOB_NONE);
}
