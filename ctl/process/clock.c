#include "ctl/process/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t mt_clock_now_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t mt_clock_realtime_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

uint64_t mt_clock_boottime_ns(void)
{
	return read_ns(CLOCK_BOOTTIME);
}

void mt_clock_sleep_ms(unsigned ms)
{
	const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&pause, NULL);
}
