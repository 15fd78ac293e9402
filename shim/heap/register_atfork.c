/* heap/register_atfork.c -- the function behind pthread_atfork (a static stub in each object). The
 * handler that is registered first is prepared last: a library that registers before the shim, and
 * allocates in its handlers, would find the allocator locked for the fork. So the shim's handlers
 * come first. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

#include "sys/attr.h"
#include "sys/symbol.h"
#include "heap/entries.h"
#include "core/init.h"

typedef void (*handler_fn)(void);

MT_EXPORT int __register_atfork(handler_fn prepare, handler_fn parent, handler_fn child,
				void *owner);

MT_EXPORT int __register_atfork(handler_fn prepare, handler_fn parent, handler_fn child,
				void *owner)
{
	int (*next)(handler_fn, handler_fn, handler_fn, void *);

	/* A malloc of the program's own may be in its first call, and register handlers with its
	 * lock held: choosing a backend would call that malloc, which waits for itself for ever
	 * (chromium did). Then our constructor registers ours. */
	if (mt_symbol(RTLD_DEFAULT, "malloc") == (void *)(uintptr_t)mt_own_malloc)
		mt_init_start_heap();
	*(void **)(void *)&next = mt_symbol(RTLD_NEXT, "__register_atfork");
	return next ? next(prepare, parent, child, owner) : ENOMEM;
}
