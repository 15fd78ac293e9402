/* heap/jemalloc_cache.c -- the caches of many threads. A thread that has allocated little takes few
 * blocks at a time, so that threads with a few blocks each share slabs: otherwise each has a page
 * for each size.
 *
 * A thread that only frees: nothing takes blocks from the
 * cache of a thread that waits: jemalloc empties it on the thread itself, a part at every 64 KiB
 * that the thread allocates or frees. In a pool of many threads these caches hold more than the
 * program. A thread that frees much and allocates little often waits next. So one of many empties
 * its cache at each 64 KiB of such a phase. Not in every phase: a thread that goes on would fill it
 * again.
 *
 * Comes instead of jemalloc's own function where other files of it call that (jemalloc.mk). Any
 * thread, inside jemalloc. Source: src/tcache.c of jemalloc 5.3. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/account.h"
#include "heap/jemalloc.h"
#include "heap/jemalloc_counters.h"
#include "sys/attr.h"
#include "sys/os.h"

/* Caches of fewer threads hold some 20 MB, and empty ones would cost their next allocations. */
#define MANY_THREADS 16u
/* A phase begins where so much was freed, and up to this part of it allocated meanwhile. */
#define PHASE_BYTES (512u << 10)
#define LITTLE      4u
/* between phases in which a thread empties its cache */
#define PAUSE_NS (20 * MT_NS_PER_MS)

/* A cache is filled with up to so many blocks, and with one more for each so many bytes that the
 * thread has allocated. */
#define FIRST_FILL 2u
#define FILL_BYTES 2048u

/* Internal to jemalloc. Weak: another version may lack it. Until 5.3.0 with a second parameter. */
extern void __real_je_tcache_gc_dalloc_event_handler(void *thread, uint64_t elapsed)
	__attribute__((weak));
void __wrap_je_tcache_gc_dalloc_event_handler(void *thread, uint64_t elapsed);
/* 5.3.0 alone. fill: the number of blocks. */
extern void __real_je_arena_cache_bin_fill_small(void *thread, void *arena, void *cache, void *info,
						 unsigned size_class, unsigned fill)
	__attribute__((weak));
void __wrap_je_arena_cache_bin_fill_small(void *thread, void *arena, void *cache, void *info,
					  unsigned size_class, unsigned fill);

static MT_TLS struct {
	uint64_t allocated, freed; /* at the last event */
	uint64_t freed_bytes;      /* since the thread allocated more than a little */
	uint64_t began_ns;         /* the last phase in which it empties its cache */
	bool empties;
} phase;

/* Returns whether the thread shall empty its cache. */
static bool note_free(void)
{
	uint64_t allocated = 0, freed = 0, now_ns;

	if (!mt_jemalloc_own_counters(&allocated, &freed) || !allocated)
		return false;
	if ((allocated - phase.allocated) * LITTLE <= freed - phase.freed)
		phase.freed_bytes += freed - phase.freed;
	else
		phase.freed_bytes = 0;
	phase.allocated = allocated;
	phase.freed = freed;
	if (phase.freed_bytes < PHASE_BYTES)
		return phase.empties = false;
	now_ns = phase.empties ? 0 : mt_os_now_ns();
	if (now_ns >= phase.began_ns + PAUSE_NS) {
		phase.began_ns = now_ns;
		phase.empties = true;
	}
	return phase.empties;
}

void __wrap_je_tcache_gc_dalloc_event_handler(void *thread, uint64_t elapsed)
{
	if (mt_account_threads() >= MANY_THREADS && note_free())
		mt_jemalloc_flush_thread();
	else
		__real_je_tcache_gc_dalloc_event_handler(thread, elapsed);
}

void __wrap_je_arena_cache_bin_fill_small(void *thread, void *arena, void *cache, void *info,
					  unsigned size_class, unsigned fill)
{
	uint64_t allocated = 0, freed = 0;

	if (mt_account_threads() >= MANY_THREADS && mt_jemalloc_own_counters(&allocated, &freed) &&
	    fill > FIRST_FILL + allocated / FILL_BYTES)
		fill = (unsigned)(FIRST_FILL + allocated / FILL_BYTES);
	mt_assert(fill > 0);
	__real_je_arena_cache_bin_fill_small(thread, arena, cache, info, size_class, fill);
}
