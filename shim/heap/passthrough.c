/* heap/passthrough.c -- the heap family over an allocator whose block sizes the shim cannot read.
 * It sums the requested bytes alone, so that growth is checked every MT_GROWTH_STEP_BYTES of a
 * thread. */
#include <errno.h>

#include "heap/account.h"
#include "heap/backend.h"
#include "heap/entries.h"
#include "heap/growth.h"
#include "sys/attr.h"

/* A copy: one load finds the function. */
static struct mt_heap_ops next;

static MT_COLD void event(struct mt_thread_counters *counters)
{
	int kept = errno;

	counters->next_event_bytes = counters->allocated_bytes + MT_GROWTH_STEP_BYTES;
	mt_growth_note();
	errno = kept;
}

static inline void *note_bytes(void *block, size_t requested)
{
	struct mt_thread_counters *counters = &mt_thread_counters;

	/* Nothing for a failed request: two huge ones would wrap the sum around, and growth would
	 * never be checked again. */
	if (mt_unlikely(mt_account_bump(&counters->allocated_bytes, block ? requested : 0) >=
			counters->next_event_bytes))
		event(counters);
	return block;
}

static void *noted_malloc(size_t size)
{
	return note_bytes(next.malloc(size), size);
}

static void *noted_calloc(size_t count, size_t size)
{
	return note_bytes(next.calloc(count, size), count * size);
}

static void *noted_realloc(void *ptr, size_t size)
{
	return note_bytes(next.realloc(ptr, size), size);
}

static void *noted_memalign(size_t alignment, size_t size)
{
	return note_bytes(next.memalign(alignment, size), size);
}

static void *noted_aligned_alloc(size_t alignment, size_t size)
{
	return note_bytes(next.aligned_alloc(alignment, size), size);
}

static int noted_posix_memalign(void **out, size_t alignment, size_t size)
{
	int answer = next.posix_memalign(out, alignment, size);

	note_bytes(answer == 0 ? *out : NULL, size);
	return answer;
}

/* free and malloc_usable_size go straight to the allocator. */
const struct mt_heap_ops *mt_passthrough_ops(void)
{
	static struct mt_heap_ops ops;

	next = *mt_system_plain_ops();
	ops = next;
#define X(type, name, params, args) ops.name = noted_##name;
	MT_HEAP_ALLOCATING(X)
#undef X
	return &ops;
}
