#include "heap/glibc_accounting.h"

#include <errno.h>

/* A copy of glibc's functions, and a wrapper's free: one load finds each. */
static struct mt_heap_ops next;

static void no_event(void)
{
}

static void (*on_event)(void) = no_event;

void mt_glibc_accounting_use(void (*event)(void))
{
	on_event = event;
}

MT_COLD void *mt_glibc_event(void *block)
{
	int kept = errno;

	mt_thread_counters.next_event_bytes =
		mt_thread_counters.allocated_bytes + MT_GLIBC_EVENT_BYTES;
	mt_account_thread_born(NULL);
	on_event();
	errno = kept;
	return block;
}

MT_COLD void *mt_glibc_count_mapped(void *block)
{
	return mt_glibc_count_bytes(block, mt_glibc_usable(block));
}

void mt_glibc_uncount(size_t bytes)
{
	mt_account_thread_born(NULL); /* does nothing for a registered thread */
	(void)mt_account_bump(&mt_thread_counters.freed_bytes, bytes);
}

static void *accounted_malloc(size_t size)
{
	return mt_glibc_count(next.malloc(size));
}

static void *accounted_calloc(size_t count, size_t size)
{
	return mt_glibc_count(next.calloc(count, size));
}

static void *accounted_realloc(void *ptr, size_t size)
{
	size_t old = ptr ? mt_glibc_usable(ptr) : 0;
	void *fresh = next.realloc(ptr, size);

	/* realloc(ptr, 0) frees, and returns NULL */
	if (ptr && (fresh || size == 0))
		mt_glibc_uncount(old);
	return mt_glibc_count(fresh);
}

static void *accounted_memalign(size_t alignment, size_t size)
{
	return mt_glibc_count(next.memalign(alignment, size));
}

static void *accounted_aligned_alloc(size_t alignment, size_t size)
{
	return mt_glibc_count(next.aligned_alloc(alignment, size));
}

static int accounted_posix_memalign(void **out, size_t alignment, size_t size)
{
	int answer = next.posix_memalign(out, alignment, size);

	if (answer == 0)
		mt_glibc_count(*out);
	return answer;
}

/* Also the first thing that a thread does with the heap: accounted_free has counted the bytes. */
static MT_COLD void free_unregistered(void *ptr)
{
	mt_account_thread_born(NULL);
	next.free(ptr);
}

static MT_COLD void free_mapped(void *ptr)
{
	mt_glibc_uncount(mt_glibc_usable(ptr));
	next.free(ptr);
}

static void accounted_free(void *ptr)
{
	size_t header;

	if (mt_unlikely(!ptr))
		return;
	header = mt_glibc_header(ptr);
	if (mt_unlikely(mt_glibc_is_mapped(header)))
		free_mapped(ptr);
	else if (mt_unlikely(!mt_account_bump_known(&mt_thread_counters.freed_bytes,
						    mt_glibc_heap_usable(header))))
		free_unregistered(ptr);
	else
		next.free(ptr);
}

static size_t accounted_malloc_usable_size(void *ptr)
{
	return ptr ? mt_glibc_usable(ptr) : 0;
}

static const struct mt_heap_ops accounting_ops = {
#define X(type, name, params, args) .name = accounted_##name,
	MT_HEAP_ALLOCATING(X) MT_HEAP_EXISTING(X)
#undef X
};

const struct mt_heap_ops *mt_glibc_accounting_ops(void)
{
	next = *mt_system_plain_ops();
	return &accounting_ops;
}
