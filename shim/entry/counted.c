/* entry/counted.c -- the heap family over the next allocator in line. Over glibc each call adds the block's usable size
 * to its thread's cell; over others, whose block sizes are not ours to read, only the bytes asked for are summed, to
 * look at growth now and then. This is where account and backend meet: neither knows the other. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "account/account.h"
#include "backend/backend.h"
#include "backend/glibc.h"
#include "entry/heap.h"
#include "life.h"

/* ---- over glibc ---- */

/* The thread's first allocation (look_bytes begins as 0), and every MT_LIFE_LOOK_BYTES of allocation after it. */
static MT_COLD void look(struct mt_cell *cell)
{
	int kept = errno;

	cell->look_bytes = atomic_load_explicit(&cell->allocated_bytes, memory_order_relaxed) + MT_LIFE_LOOK_BYTES;
	mt_account_thread_born(NULL);
	mt_life_grown();
	errno = kept;
}

static inline void *count_block(void *block)
{
	struct mt_cell *cell = &mt_cell;

	if (mt_unlikely(!block))
		return NULL;
	mt_account_bump(&cell->allocated_bytes, mt_glibc_usable(block));
	if (mt_unlikely(atomic_load_explicit(&cell->allocated_bytes, memory_order_relaxed) >= cell->look_bytes))
		look(cell);
	return block;
}

static inline void uncount_bytes(size_t bytes)
{
	struct mt_cell *cell = &mt_cell;

	mt_account_bump(&cell->freed_bytes, bytes);
	if (mt_unlikely(!cell->known))
		mt_account_thread_born(NULL);
}

static void *counted_malloc(size_t size)
{
	return count_block(__libc_malloc(size));
}

static void *counted_calloc(size_t count, size_t size)
{
	return count_block(__libc_calloc(count, size));
}

static MT_COLD void *counted_from_boot(void *ptr, size_t size)
{
	void *fresh = counted_malloc(size);
	size_t old = mt_boot_ops.malloc_usable_size(ptr);

	if (fresh)
		memcpy(fresh, ptr, old < size ? old : size);
	return fresh;
}

static void *counted_realloc(void *ptr, size_t size)
{
	size_t old;
	void *fresh;

	if (mt_unlikely(mt_boot_owns(ptr)))
		return counted_from_boot(ptr, size);
	old = ptr ? mt_glibc_usable(ptr) : 0;
	fresh = __libc_realloc(ptr, size);
	/* realloc(ptr, 0) frees, and answers NULL */
	if (ptr && (fresh || size == 0))
		uncount_bytes(old);
	return count_block(fresh);
}

static void *counted_reallocarray(void *ptr, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return counted_realloc(ptr, bytes);
}

static void *counted_memalign(size_t alignment, size_t size)
{
	return count_block(__libc_memalign(alignment, size));
}

static void *counted_aligned_alloc(size_t alignment, size_t size)
{
	return count_block(mt_system_plain_ops()->aligned_alloc(alignment, size));
}

static int counted_posix_memalign(void **out, size_t alignment, size_t size)
{
	int answer = mt_system_plain_ops()->posix_memalign(out, alignment, size);

	if (answer == 0)
		count_block(*out);
	return answer;
}

static void *counted_valloc(size_t size)
{
	return count_block(__libc_valloc(size));
}

static void *counted_pvalloc(size_t size)
{
	return count_block(__libc_pvalloc(size));
}

static void counted_free(void *ptr)
{
	if (mt_unlikely(!ptr || mt_boot_owns(ptr)))
		return;
	uncount_bytes(mt_glibc_usable(ptr));
	__libc_free(ptr);
}

static void counted_free_sized(void *ptr, size_t size)
{
	(void)size;
	counted_free(ptr);
}

static void counted_free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	counted_free(ptr);
}

static size_t counted_malloc_usable_size(void *ptr)
{
	if (mt_unlikely(!ptr || mt_boot_owns(ptr)))
		return mt_boot_ops.malloc_usable_size(ptr);
	return mt_glibc_usable(ptr);
}

static const struct mt_heap_ops counted_ops = {
#define X(type, name, params, args) .name = counted_##name,
	MT_HEAP_MAKERS(X)
	MT_HEAP_KEEPERS(X)
#undef X
};

const struct mt_heap_ops *mt_counted_ops(void)
{
	return &counted_ops;
}

/* ---- over any other allocator ---- */

static MT_COLD void look_uncounted(struct mt_cell *cell)
{
	int kept = errno;

	cell->look_bytes = atomic_load_explicit(&cell->allocated_bytes, memory_order_relaxed) + MT_LIFE_LOOK_BYTES;
	mt_life_grown();
	errno = kept;
}

static inline void *note_bytes(void *block, size_t asked)
{
	struct mt_cell *cell = &mt_cell;

	mt_account_bump(&cell->allocated_bytes, asked);
	if (mt_unlikely(atomic_load_explicit(&cell->allocated_bytes, memory_order_relaxed) >= cell->look_bytes))
		look_uncounted(cell);
	return block;
}

static void *uncounted_malloc(size_t size)
{
	return note_bytes(mt_system_plain_ops()->malloc(size), size);
}

static void *uncounted_calloc(size_t count, size_t size)
{
	return note_bytes(mt_system_plain_ops()->calloc(count, size), count * size);
}

static void *uncounted_realloc(void *ptr, size_t size)
{
	if (mt_unlikely(mt_boot_owns(ptr))) {
		void *fresh = mt_system_plain_ops()->malloc(size);
		size_t old = mt_boot_ops.malloc_usable_size(ptr);

		if (fresh)
			memcpy(fresh, ptr, old < size ? old : size);
		return fresh;
	}
	return note_bytes(mt_system_plain_ops()->realloc(ptr, size), size);
}

static void *uncounted_reallocarray(void *ptr, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return uncounted_realloc(ptr, bytes);
}

static void *uncounted_memalign(size_t alignment, size_t size)
{
	return note_bytes(mt_system_plain_ops()->memalign(alignment, size), size);
}

static void *uncounted_aligned_alloc(size_t alignment, size_t size)
{
	return note_bytes(mt_system_plain_ops()->aligned_alloc(alignment, size), size);
}

static int uncounted_posix_memalign(void **out, size_t alignment, size_t size)
{
	int answer = mt_system_plain_ops()->posix_memalign(out, alignment, size);

	note_bytes(NULL, size);
	return answer;
}

static void *uncounted_valloc(size_t size)
{
	return note_bytes(mt_system_plain_ops()->valloc(size), size);
}

static void *uncounted_pvalloc(size_t size)
{
	return note_bytes(mt_system_plain_ops()->pvalloc(size), size);
}

static void uncounted_free(void *ptr)
{
	if (mt_likely(!mt_boot_owns(ptr)))
		mt_system_plain_ops()->free(ptr);
}

static void uncounted_free_sized(void *ptr, size_t size)
{
	if (mt_likely(!mt_boot_owns(ptr)))
		mt_system_plain_ops()->free_sized(ptr, size);
}

static void uncounted_free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
	if (mt_likely(!mt_boot_owns(ptr)))
		mt_system_plain_ops()->free_aligned_sized(ptr, alignment, size);
}

static size_t uncounted_malloc_usable_size(void *ptr)
{
	return mt_boot_owns(ptr) ? mt_boot_ops.malloc_usable_size(ptr) :
				   mt_system_plain_ops()->malloc_usable_size(ptr);
}

static const struct mt_heap_ops uncounted_ops = {
#define X(type, name, params, args) .name = uncounted_##name,
	MT_HEAP_MAKERS(X)
	MT_HEAP_KEEPERS(X)
#undef X
};

const struct mt_heap_ops *mt_uncounted_ops(void)
{
	return &uncounted_ops;
}
