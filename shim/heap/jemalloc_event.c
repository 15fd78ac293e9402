#include "heap/jemalloc_event.h"

#include <stddef.h>

/* Internal to jemalloc 5.3: src/stats.c, src/thread_event.c. There the event prints statistics
 * every opt.stats_interval bytes, and is there at all where that is set. With a version whose
 * functions are others it would print: jemalloc.mk checks that. 5.3.0 passes the handler a second
 * argument, 5.3.1 does not. */
extern int64_t je_opt_stats_interval __attribute__((weak));
void mt_je_stats_interval_event_handler(void *thread);
uint64_t mt_je_stats_interval_new_event_wait(void *thread);
uint64_t mt_je_stats_interval_postponed_event_wait(void *thread);

/* STATS_INTERVAL_ACCUM_LG_BATCH_SIZE: 5.3.1 takes a step of this part of the interval; it does
 * not call for the next step, as 5.3.0 does. */
#define STEPS_PER_INTERVAL 64

static uint64_t step;
static void (*on_event)(void);

void mt_jemalloc_event_use(uint64_t step_bytes, void (*handler)(void))
{
#ifdef MT_JEMALLOC_EVENTS
	if (!&je_opt_stats_interval || !handler)
		return;
	step = step_bytes;
	on_event = handler;
	je_opt_stats_interval = (int64_t)(step_bytes * STEPS_PER_INTERVAL);
#else
	(void)step_bytes;
	(void)handler;
#endif
}

uint64_t mt_je_stats_interval_new_event_wait(void *thread)
{
	(void)thread;
	return step;
}

/* The event came at a moment when it could not be handled: at the next allocation. */
uint64_t mt_je_stats_interval_postponed_event_wait(void *thread)
{
	(void)thread;
	return 1;
}

void mt_je_stats_interval_event_handler(void *thread)
{
	(void)thread;
	on_event();
}
