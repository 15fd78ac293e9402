/* heap/entries.c -- the exported heap family. Each function is one jump through a table in our own
 * memory, predicted like any other: one instruction, where a branch on a flag and a direct jump are
 * three. No state of the heap, no policy. */
#include "heap/entries.h"

#include "core/init.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/lock.h"

/* ---- the very first calls ---- */

static bool was_called; /* the thread that starts the heap */

bool mt_heap_was_called(void)
{
	bool was = was_called;

	was_called = false;
	return was;
}

#define X(type, name, params, args) static type first_##name params;
MT_HEAP_ALLOCATING(X)
MT_HEAP_EXISTING(X)
#undef X

/* Read plainly, since an atomic load costs a second instruction on each call; written by atomic
 * stores of one pointer each. A call that still sees the old pointer is served as well by the old
 * way. */
static struct mt_heap_ops serving = {
#define X(type, name, params, args) .name = first_##name,
	MT_HEAP_ALLOCATING(X) MT_HEAP_EXISTING(X)
#undef X
};

#define X(type, name, params, args)                                                                \
	MT_EXPORT type name params;                                                                \
	MT_EXPORT type name params                                                                 \
	{                                                                                          \
		mt_lock_check_entry(#name);                                                        \
		return serving.name args;                                                          \
	}
MT_HEAP_ALLOCATING(X)
MT_HEAP_EXISTING(X)
#undef X

#define X(type, name, params, args)                                                                \
	static type first_##name params                                                            \
	{                                                                                          \
		mt_init_start_heap();                                                              \
		was_called = true;                                                                 \
		return (serving.name == first_##name ? mt_asleep_early_ops()->name : serving.name) \
			args;                                                                      \
	}
MT_HEAP_ALLOCATING(X)
#undef X

/* These do not start the heap: the start calls dlsym, and dlsym frees the text of its last error
 * before it forgets it (a program under ThreadSanitizer begins so). */
#define X(type, name, params, args)                                                                \
	static type first_##name params                                                            \
	{                                                                                          \
		return (serving.name == first_##name ? mt_asleep_early_ops()->name : serving.name) \
			args;                                                                      \
	}
MT_HEAP_EXISTING(X)
#undef X

void mt_heap_serve(const struct mt_heap_ops *ops)
{
	/* release: what the functions rely on has been set up before. In this order: who makes a
	 * block of the new allocator, and frees it, meets its free. */
#define X(type, name, params, args) __atomic_store_n(&serving.name, ops->name, __ATOMIC_RELEASE);
	MT_HEAP_EXISTING(X)
	X(void *, realloc, , )
	mt_assert(serving.free == ops->free && serving.realloc == ops->realloc &&
		  serving.malloc_usable_size == ops->malloc_usable_size);
	MT_HEAP_ALLOCATING(X)
#undef X
}

bool mt_heap_serves(const struct mt_heap_ops *ops)
{
	bool all = true;

#define X(type, name, params, args)                                                                \
	all = all && __atomic_load_n(&serving.name, __ATOMIC_RELAXED) == ops->name;
	MT_HEAP_ALLOCATING(X)
	MT_HEAP_EXISTING(X)
#undef X
	return all;
}

#define X(type, name, params, args) MT_HEAP_OWN(name)
MT_HEAP_ALLOCATING(X)
MT_HEAP_EXISTING(X)
#undef X

/* ---- libc's second names for its malloc ---- */

/* __libc_malloc and the like. Programs and malloc wrappers call them to reach libc's malloc
 * without dlsym, and mix their blocks with those of free. So over the embedded jemalloc they are
 * our own functions. Over any other allocator they are the next ones in line: ours may be on its
 * way there through a wrapper that calls these names. */

#define X(type, name, params, args) MT_EXPORT type __libc_##name params;
MT_HEAP_LIBC(X)
#undef X

/* Words that go from NULL to the one right value: relaxed. */
enum {
#define X(type, name, params, args) NEXT_##name,
	MT_HEAP_LIBC(X) NEXT_COUNT
#undef X
};
static _Atomic(void *) next[NEXT_COUNT];

static void *find_next(int index, const char *name)
{
	void *found = mt_load_relaxed(&next[index]);

	if (mt_likely(found))
		return found;
	mt_loader_next_functions(&name, &found, 1);
	mt_store_relaxed(&next[index], found);
	return found;
}

#define X(type, name, params, args)                                                                \
	MT_EXPORT type __libc_##name params                                                        \
	{                                                                                          \
		type(*there) params = mt_own_##name;                                               \
                                                                                                   \
		if (!mt_init_uses_jemalloc())                                                      \
			*(void **)(void *)&there = find_next(NEXT_##name, "__libc_" #name);        \
		return there args;                                                                 \
	}
MT_HEAP_LIBC(X)
#undef X
