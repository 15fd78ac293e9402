/* entry/heap.c -- the exported heap family. Each function is one predictable branch and a jump: to the embedded jemalloc,
 * or through the table that life.c has set. No state of the heap, no policy. */
#include "entry/heap.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/jemalloc.h"
#include "life.h"

#ifdef MT_NO_JEMALLOC
#define DIRECT(flag, name, args)
#else
#define DIRECT(flag, name, args)                                                                                      \
	if (mt_likely(flag))                                                                                          \
		return je_##name args;
#endif

/* Plain bytes, not atomics: the compiler then compares in memory, one instruction less on each call. They are written
 * with atomic stores of one byte, and a call that still sees the old value is served as well by the old way. */
static unsigned char direct;
static unsigned char direct_free;

static const struct mt_heap_ops first_ops;
static const struct mt_heap_ops *_Atomic serving = &first_ops;

static inline const struct mt_heap_ops *ops(void)
{
	return atomic_load_explicit(&serving, memory_order_acquire);
}

#define X(type, name, params, args)                                                                                   \
	MT_EXPORT type name params;                                                                                   \
	MT_EXPORT type name params                                                                                    \
	{                                                                                                             \
		DIRECT(direct, name, args)                                                                            \
		return ops()->name args;                                                                              \
	}
MT_HEAP_MAKERS(X)
#undef X

#define X(type, name, params, args)                                                                                   \
	MT_EXPORT type name params;                                                                                   \
	MT_EXPORT type name params                                                                                    \
	{                                                                                                             \
		DIRECT(direct_free, name, args)                                                                       \
		return ops()->name args;                                                                              \
	}
MT_HEAP_KEEPERS(X)
#undef X

/* ---- the very first call ---- */

#define X(type, name, params, args)                                                                                   \
	static type first_##name params                                                                               \
	{                                                                                                             \
		mt_life_heap_start();                                                                                 \
		return (ops() == &first_ops ? &mt_boot_ops : ops())->name args;                                       \
	}
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X

static const struct mt_heap_ops first_ops = {
#define X(type, name, params, args) .name = first_##name,
	MT_HEAP_MAKERS(X)
	MT_HEAP_KEEPERS(X)
#undef X
};

/* ---- the embedded jemalloc by the cold path: after growth, and for ever where the boot arena was needed, since its
 * blocks may still come back ---- */

#ifndef MT_NO_JEMALLOC
static _Atomic unsigned char growth_noted;
static unsigned char may_jump;

/* The allocator has returned, so that a thread may be started. */
static MT_COLD void look_at_growth(void)
{
	__atomic_store_n(&direct, may_jump, __ATOMIC_RELAXED);
	if (atomic_exchange_explicit(&growth_noted, 0, memory_order_relaxed))
		mt_life_grown();
}

static void *boot_aware_realloc(void *ptr, size_t size)
{
	void *fresh;
	size_t old;

	if (!mt_boot_owns(ptr))
		return je_realloc(ptr, size);
	fresh = je_malloc(size);
	old = mt_boot_ops.malloc_usable_size(ptr);
	if (fresh)
		memcpy(fresh, ptr, old < size ? old : size);
	return fresh;
}

static void *boot_aware_reallocarray(void *ptr, size_t count, size_t size)
{
	size_t bytes;

	if (!mt_boot_owns(ptr) || __builtin_mul_overflow(count, size, &bytes))
		return je_reallocarray(ptr, count, size);
	return boot_aware_realloc(ptr, bytes);
}

#define cold_malloc         je_malloc
#define cold_calloc         je_calloc
#define cold_realloc        boot_aware_realloc
#define cold_reallocarray   boot_aware_reallocarray
#define cold_memalign       je_memalign
#define cold_aligned_alloc  je_aligned_alloc
#define cold_posix_memalign je_posix_memalign
#define cold_valloc         je_valloc
#define cold_pvalloc        je_pvalloc

#define X(type, name, params, args)                                                                                   \
	static MT_COLD type grown_##name params                                                                       \
	{                                                                                                             \
		type answer = cold_##name args;                                                                       \
                                                                                                                      \
		look_at_growth();                                                                                     \
		return answer;                                                                                        \
	}
MT_HEAP_MAKERS(X)
#undef X

static void grown_free(void *ptr)
{
	if (!mt_boot_owns(ptr))
		je_free(ptr);
}

static void grown_free_sized(void *ptr, size_t size)
{
	(void)size;
	grown_free(ptr);
}

static void grown_free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	grown_free(ptr);
}

static size_t grown_malloc_usable_size(void *ptr)
{
	return mt_boot_owns(ptr) ? mt_boot_ops.malloc_usable_size(ptr) : je_malloc_usable_size(ptr);
}

static const struct mt_heap_ops grown_ops = {
#define X(type, name, params, args) .name = grown_##name,
	MT_HEAP_MAKERS(X)
	MT_HEAP_KEEPERS(X)
#undef X
};

void mt_heap_serve_jemalloc(void)
{
	may_jump = !mt_boot_used();
	mt_heap_serve(&grown_ops);
	__atomic_store_n(&direct, may_jump, __ATOMIC_RELAXED);
	__atomic_store_n(&direct_free, may_jump, __ATOMIC_RELAXED);
}

void mt_heap_note_growth(void)
{
	atomic_store_explicit(&growth_noted, 1, memory_order_relaxed);
	__atomic_store_n(&direct, 0, __ATOMIC_RELAXED);
}
#endif

void mt_heap_serve(const struct mt_heap_ops *given)
{
	/* release: pairs with the acquire in ops(); the table behind it is complete */
	atomic_store_explicit(&serving, given, memory_order_release);
}

extern __typeof__(malloc) own_malloc __attribute__((alias("malloc"), visibility("hidden")));

const void *mt_heap_own_malloc(void)
{
	return (const void *)(uintptr_t)&own_malloc;
}
