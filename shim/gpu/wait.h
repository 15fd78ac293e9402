/* gpu/wait.h -- waiting by repeated queries: first at once, then after sleeps that grow to a
 * quarter of a millisecond. And the cancel state of a thread that waits, or is in the driver for
 * the shim: cancelled there it would leave its counts up, for which others wait. */
#ifndef MT_GPU_WAIT_H
#define MT_GPU_WAIT_H

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "sys/os.h"
#include "sys/lock.h"

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

/* Disables cancellation until mt_wait_cancellable with the result; these nest. Calls of the driver
 * may poll or read, which are cancellation points. */
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
