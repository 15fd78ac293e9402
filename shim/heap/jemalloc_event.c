#include "heap/jemalloc_event.h"

#include <stddef.h>

/* Internal to jemalloc 5.3: src/stats.c, src/thread_event.c. There the event prints statistics
 * every opt.stats_interval bytes, and is there at all where that is set. With a version whose
 * functions are others it would print: jemalloc.mk looks. */
extern int64_t je_opt_stats_interval __attribute__((weak));
void mt_je_stats_interval_event_handler(void *thread, uint64_t elapsed_bytes);
uint64_t mt_je_stats_interval_new_event_wait(void *thread);
uint64_t mt_je_stats_interval_postponed_event_wait(void *thread);

static uint64_t step;
static void (*on_event)(void);

void mt_jemalloc_event_use(uint64_t step_bytes, void (*handler)(void))
{
#ifdef MT_JEMALLOC_EVENTS
	if (!&je_opt_stats_interval || !handler)
		return;
	step = step_bytes;
	on_event = handler;
	je_opt_stats_interval = (int64_t)step_bytes;
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

void mt_je_stats_interval_event_handler(void *thread, uint64_t elapsed_bytes)
{
	(void)thread;
	(void)elapsed_bytes;
	on_event();
}
