/* gpu/wait.h -- waiting by asking again: first at once, then after sleeps that grow to a quarter of
 * a millisecond. And what keeps a thread that waits, or is in the driver for us, from being
 * cancelled there: it would leave its counts up, and others wait for those. */
#ifndef MT_GPU_WAIT_H
#define MT_GPU_WAIT_H

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "sys/raw_syscall.h"
#include "sys/lock_check.h"

/* Call with 0, 1, 2, ...; no lock held. */
static inline void mt_wait_round(unsigned round)
{
	struct timespec span = {.tv_nsec = round < 40 ? 20000 : 250000};

	mt_lock_check_wait("others");
	if (round < 10)
		(void)sched_yield();
	else
		/* libc's is a cancellation point */
		(void)mt_raw_syscall(SYS_nanosleep, &span, NULL);
}

/* Until mt_wait_cancellable with the answer; they nest. The driver's calls may poll or read, which
 * are cancellation points. */
static inline int mt_wait_uncancelled(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void mt_wait_cancellable(int before)
{
	int disabled;

	(void)pthread_setcancelstate(before, &disabled);
}

#endif
