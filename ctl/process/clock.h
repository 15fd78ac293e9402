/* ctl/process/clock.h -- clocks in ns, and a sleep. Any thread may call. */
#ifndef MT_CTL_PROCESS_CLOCK_H
#define MT_CTL_PROCESS_CLOCK_H

#include <stdint.h>

uint64_t mt_clock_now_ns(void);      /* CLOCK_MONOTONIC */
uint64_t mt_clock_realtime_ns(void); /* CLOCK_REALTIME */
uint64_t mt_clock_boottime_ns(void); /* CLOCK_BOOTTIME */

/* Sleeps for `ms` milliseconds. Returns early when a signal handler has run. */
void mt_clock_sleep_ms(unsigned ms);

#endif
