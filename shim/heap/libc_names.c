/* heap/libc_names.c -- libc's second names for its malloc, __libc_malloc and the like. Programs and
 * malloc wrappers call them to reach libc's malloc without dlsym, and mix their blocks with those
 * of free. So over the embedded jemalloc they are our own functions. Over any other allocator they
 * are the next ones in line: ours may be on its way there through a wrapper that calls these names.
 */
#include <stdatomic.h>

#include "sys/attr.h"
#include "sys/elf.h"
#include "heap/entries.h"
#include "core/init.h"

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
	void *found = atomic_load_explicit(&next[index], memory_order_relaxed);

	if (mt_likely(found))
		return found;
	mt_elf_next_functions(&name, &found, 1);
	atomic_store_explicit(&next[index], found, memory_order_relaxed);
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
