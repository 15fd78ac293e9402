/* heap/counted.c -- the heap family over the next allocator in line. Over glibc each call adds the
 * block's usable size to its thread's cell; over others, whose block sizes are not ours to read,
 * only the bytes asked for are summed, to look at growth now and then. This is where account and
 * backend meet: neither knows the other. */
#include <errno.h>
#include <stdint.h>

#include "heap/account.h"
#include "heap/backend.h"
#include "heap/glibc.h"
#include "heap/allocation_event.h"
#include "heap/entries.h"
#include "heap/growth.h"
#include "core/init.h"

/* A copy: one load finds the function. Over glibc these are glibc's own. */
static struct mt_heap_ops next;

/* ---- over glibc ---- */

/* The hot paths below end in a jump wherever they leave the common case, so that nothing has to be
 * saved across a call: of the 30 instructions a pair that counting may cost, that is 6. */

/* The thread's first allocation (look_bytes begins as 0), and every MT_GROWTH_STEP_BYTES of
 * allocation after it. */
static MT_COLD void *look(void *block)
{
	int kept = errno;

	mt_thread_counters.look_bytes = mt_thread_counters.allocated_bytes + MT_GROWTH_STEP_BYTES;
	mt_account_thread_born(NULL);
	mt_growth_note();
	mt_allocation_event_tell(mt_thread_counters.allocated_bytes);
	errno = kept;
	return block;
}

static inline void *count_bytes(void *block, size_t bytes)
{
	struct mt_thread_counters *cell = &mt_thread_counters;

	if (mt_unlikely(mt_account_bump(&cell->allocated_bytes, bytes) >= cell->look_bytes))
		return look(block);
	return block;
}

static MT_COLD void *count_mapped(void *block)
{
	return count_bytes(block, mt_glibc_usable(block));
}

static inline void *count_block(void *block)
{
	size_t header;

	if (mt_unlikely(!block))
		return NULL;
	header = mt_glibc_header(block);
	if (mt_unlikely(mt_glibc_is_mapped(header)))
		return count_mapped(block);
	return count_bytes(block, mt_glibc_heap_usable(header));
}

static void uncount_bytes(size_t bytes)
{
	mt_account_thread_born(NULL); /* does nothing for a thread that is known */
	(void)mt_account_bump(&mt_thread_counters.freed_bytes, bytes);
}

static void *counted_malloc(size_t size)
{
	return count_block(next.malloc(size));
}

static void *counted_calloc(size_t count, size_t size)
{
	return count_block(next.calloc(count, size));
}

static void *counted_realloc(void *ptr, size_t size)
{
	size_t old = ptr ? mt_glibc_usable(ptr) : 0;
	void *fresh = next.realloc(ptr, size);

	/* realloc(ptr, 0) frees, and answers NULL */
	if (ptr && (fresh || size == 0))
		uncount_bytes(old);
	return count_block(fresh);
}

static void *counted_memalign(size_t alignment, size_t size)
{
	return count_block(next.memalign(alignment, size));
}

static void *counted_aligned_alloc(size_t alignment, size_t size)
{
	return count_block(next.aligned_alloc(alignment, size));
}

static int counted_posix_memalign(void **out, size_t alignment, size_t size)
{
	int answer = next.posix_memalign(out, alignment, size);

	if (answer == 0)
		count_block(*out);
	return answer;
}

static MT_COLD void free_mapped(void *ptr)
{
	uncount_bytes(mt_glibc_usable(ptr));
	next.free(ptr);
}

/* The first that a thread does with the heap is to free; the bytes are counted already. */
static MT_COLD void free_unknown(void *ptr)
{
	mt_account_thread_born(NULL);
	next.free(ptr);
}

static void counted_free(void *ptr)
{
	size_t header;

	if (mt_unlikely(!ptr))
		return;
	header = mt_glibc_header(ptr);
	if (mt_unlikely(mt_glibc_is_mapped(header)))
		free_mapped(ptr);
	else if (mt_unlikely(!mt_account_bump_known(&mt_thread_counters.freed_bytes,
						    mt_glibc_heap_usable(header))))
		free_unknown(ptr);
	else
		next.free(ptr);
}

static size_t counted_malloc_usable_size(void *ptr)
{
	return ptr ? mt_glibc_usable(ptr) : 0;
}

static const struct mt_heap_ops counted_ops = {
#define X(type, name, params, args) .name = counted_##name,
	MT_HEAP_MAKERS(X) MT_HEAP_KEEPERS(X)
#undef X
};

const struct mt_heap_ops *mt_counted_ops(void)
{
	next = *mt_system_plain_ops();
	return &counted_ops;
}

/* ---- over any other allocator ---- */

static MT_COLD void look_uncounted(struct mt_thread_counters *cell)
{
	int kept = errno;

	cell->look_bytes = cell->allocated_bytes + MT_GROWTH_STEP_BYTES;
	mt_growth_note();
	errno = kept;
}

static inline void *note_bytes(void *block, size_t asked)
{
	struct mt_thread_counters *cell = &mt_thread_counters;

	/* Of one that failed nothing: two absurd ones would turn the sum over, and growth be never
	 * looked at again. */
	if (mt_unlikely(mt_account_bump(&cell->allocated_bytes, block ? asked : 0) >=
			cell->look_bytes))
		look_uncounted(cell);
	return block;
}

static void *uncounted_malloc(size_t size)
{
	return note_bytes(next.malloc(size), size);
}

static void *uncounted_calloc(size_t count, size_t size)
{
	return note_bytes(next.calloc(count, size), count * size);
}

static void *uncounted_realloc(void *ptr, size_t size)
{
	return note_bytes(next.realloc(ptr, size), size);
}

static void *uncounted_memalign(size_t alignment, size_t size)
{
	return note_bytes(next.memalign(alignment, size), size);
}

static void *uncounted_aligned_alloc(size_t alignment, size_t size)
{
	return note_bytes(next.aligned_alloc(alignment, size), size);
}

static int uncounted_posix_memalign(void **out, size_t alignment, size_t size)
{
	int answer = next.posix_memalign(out, alignment, size);

	note_bytes(answer == 0 ? *out : NULL, size);
	return answer;
}

/* The makers; what only takes back goes straight to the allocator. */
const struct mt_heap_ops *mt_uncounted_ops(void)
{
	static struct mt_heap_ops ops;

	next = *mt_system_plain_ops();
	ops = next;
#define X(type, name, params, args) ops.name = uncounted_##name;
	MT_HEAP_MAKERS(X)
#undef X
	return &ops;
}
