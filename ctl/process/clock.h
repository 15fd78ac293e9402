/* ctl/process/clock.h -- clocks in ns, and a sleep. Any thread may call. */
#ifndef MT_CTL_PROCESS_CLOCK_H
#define MT_CTL_PROCESS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t mt_clock_read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t mt_clock_now_ns(void)
{
	return mt_clock_read_ns(CLOCK_MONOTONIC);
}

static inline uint64_t mt_clock_realtime_ns(void)
{
	return mt_clock_read_ns(CLOCK_REALTIME);
}

/* Returns early when a signal handler has run. */
static inline void mt_clock_sleep_ms(unsigned ms)
{
	const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&pause, NULL);
}

#endif
