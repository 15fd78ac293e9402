/* heap/register_atfork.c -- the function behind pthread_atfork (a static stub in each object). The
 * handler that is registered first is prepared last: a library that registers before the shim, and
 * allocates in its handlers, would find the allocator locked for the fork. So the shim's handlers
 * come first. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/libc.h"
#include "sys/loader.h"
#include "heap/entries.h"
#include "core/init.h"

typedef void (*handler_fn)(void);

MT_EXPORT int __register_atfork(handler_fn prepare, handler_fn parent, handler_fn child,
				void *owner);

/* A program may open and close a library that registers handlers, again and again. */
#define LAST_HANDLERS 64

extern void *__dso_handle __attribute__((visibility("hidden")));

/* The handler that is registered last is prepared first. It ends the moment in which libc leaves
 * out its locks for fork (sys/libc.h), before handlers of the program allocate. */
static void stay_last(int (*next)(handler_fn, handler_fn, handler_fn, void *))
{
	static _Atomic unsigned int count; /* counter, no ordering */

	if (mt_add_relaxed(&count, 1) < LAST_HANDLERS)
		(void)next(mt_libc_count_all_threads, NULL, NULL, &__dso_handle);
}

MT_EXPORT int __register_atfork(handler_fn prepare, handler_fn parent, handler_fn child,
				void *owner)
{
	int (*next)(handler_fn, handler_fn, handler_fn, void *);
	int answer;

	/* A malloc of the program's own may be in its first call, and register handlers with its
	 * lock held: choosing a backend would call that malloc, which waits for itself for ever
	 * (chromium did). Then our constructor registers ours. */
	if (mt_symbol(RTLD_DEFAULT, "malloc") == (void *)(uintptr_t)mt_own_malloc)
		mt_init_start_heap();
	*(void **)(void *)&next = mt_symbol(RTLD_NEXT, "__register_atfork");
	if (!next)
		return ENOMEM;
	answer = next(prepare, parent, child, owner);
	if (answer == 0)
		stay_last(next);
	return answer;
}
