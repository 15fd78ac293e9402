/* heap/entries.c -- the exported heap family. Each function is one jump through a table in our own
 * memory, predicted like any other: one instruction, where a branch on a flag and a direct jump are
 * three. No state of the heap, no policy. */
#include "heap/entries.h"

#include <stdatomic.h>

#include "sys/lock_check.h"
#include "core/init.h"

/* ---- the very first call ---- */

/* Half of the bootstrap arena is gone: it cannot wait for libc to set environ. */
static MT_COLD void start(void)
{
	if (mt_bootstrap_is_scarce())
		mt_init_force_start_heap();
	else
		mt_init_start_heap();
}

#define X(type, name, params, args) static type first_##name params;
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X

/* Read plainly, since an atomic load costs a second instruction on each call; written by atomic
 * stores of one pointer each. A call that still sees the old pointer is served as well by the old
 * way. */
static struct mt_heap_ops serving = {
#define X(type, name, params, args) .name = first_##name,
	MT_HEAP_MAKERS(X) MT_HEAP_KEEPERS(X)
#undef X
};

#define X(type, name, params, args)                                                                \
	MT_EXPORT type name params;                                                                \
	MT_EXPORT type name params                                                                 \
	{                                                                                          \
		mt_lock_check_foreign_call(#name);                                                 \
		return serving.name args;                                                          \
	}
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X

#define X(type, name, params, args)                                                                \
	static type first_##name params                                                            \
	{                                                                                          \
		start();                                                                           \
		return (serving.name == first_##name ? mt_bootstrap_ops.name : serving.name) args; \
	}
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X

void mt_heap_serve(const struct mt_heap_ops *given)
{
	if (mt_bootstrap_used())
		given = mt_late_free_ops(given);
		/* release: what the functions rely on has been set up before */
#define X(type, name, params, args) __atomic_store_n(&serving.name, given->name, __ATOMIC_RELEASE);
	MT_HEAP_MAKERS(X)
	MT_HEAP_KEEPERS(X)
#undef X
}

void mt_heap_serve_makers(const struct mt_heap_ops *given)
{
	/* relaxed: the functions are code, there is nothing behind the pointer to order */
#define X(type, name, params, args) __atomic_store_n(&serving.name, given->name, __ATOMIC_RELAXED);
	MT_HEAP_MAKERS(X)
#undef X
}

#define X(type, name, params, args) MT_HEAP_OWN(name)
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X
