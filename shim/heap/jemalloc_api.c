#include "heap/jemalloc_api.h"

#include <stddef.h>

#include "heap/backend.h"
#include "sys/attr.h"

/* Where, from the address that jemalloc announces for a thread, its two byte counters lie; the same
 * for all threads, since both are in one thread-local object. Written before another thread uses
 * jemalloc. */
static bool offsets_are_known;
static ptrdiff_t allocated_offset;
static ptrdiff_t freed_offset;
static MT_TLS const char *own_counters;

void mt_jemalloc_counters_note_thread(const void *counters)
{
	own_counters = counters;
}

bool mt_jemalloc_counters_have_thread(void)
{
	return own_counters != NULL;
}

void mt_jemalloc_counters_begin(void)
{
	uint64_t *allocated = NULL;
	uint64_t *freed = NULL;
	size_t bytes = sizeof(allocated);

	if (je_mallctl("thread.allocatedp", &allocated, &bytes, NULL, 0) != 0 ||
	    je_mallctl("thread.deallocatedp", &freed, &bytes, NULL, 0) != 0)
		return;
	allocated_offset = (const char *)allocated - own_counters;
	freed_offset = (const char *)freed - own_counters;
	offsets_are_known = true;
}

static uint64_t read_counter(const char *at)
{
	uint64_t value;

	/* Written by its owner with plain 8-byte stores: on a 64-bit machine a reader sees the old
	 * or the new one. */
	__atomic_load((const uint64_t *)(const void *)at, &value, __ATOMIC_RELAXED);
	return value;
}

bool mt_jemalloc_counters(const void *counters, uint64_t *out_allocated, uint64_t *out_freed)
{
	const char *base = counters;

	if (!offsets_are_known)
		return false;
	*out_allocated = base ? read_counter(base + allocated_offset) : 0;
	*out_freed = base ? read_counter(base + freed_offset) : 0;
	return true;
}

bool mt_jemalloc_own_counters(uint64_t *out_allocated, uint64_t *out_freed)
{
	return own_counters && mt_jemalloc_counters(own_counters, out_allocated, out_freed);
}

bool mt_jemalloc_thread_has_allocated(void)
{
	uint64_t allocated, freed;

	return mt_jemalloc_own_counters(&allocated, &freed) && allocated;
}

unsigned int mt_jemalloc_arenas_count(void)
{
	unsigned int count = 0;
	size_t bytes = sizeof(count);

	return je_mallctl("arenas.narenas", &count, &bytes, NULL, 0) == 0 ? count : 0;
}
