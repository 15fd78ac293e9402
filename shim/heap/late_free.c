/* heap/late_free.c -- blocks of the bootstrap arena come back late: in a process where it was
 * needed (hardly any), every call that may be given such a block looks first, and passes on what is
 * not one. */
#include <string.h>

#include "heap/backend.h"
#include "heap/entries.h"

static const struct mt_heap_ops *behind;

static void *late_realloc(void *ptr, size_t size)
{
	size_t old;
	void *fresh;

	if (!mt_bootstrap_owns(ptr))
		return behind->realloc(ptr, size);
	old = mt_bootstrap_ops.malloc_usable_size(ptr);
	fresh = behind->malloc(size);
	if (fresh)
		memcpy(fresh, ptr, old < size ? old : size);
	return fresh;
}

static void late_free(void *ptr)
{
	if (!mt_bootstrap_owns(ptr))
		behind->free(ptr);
}

static size_t late_malloc_usable_size(void *ptr)
{
	return mt_bootstrap_owns(ptr) ? mt_bootstrap_ops.malloc_usable_size(ptr)
				      : behind->malloc_usable_size(ptr);
}

const struct mt_heap_ops *mt_late_free_ops(const struct mt_heap_ops *given)
{
	static struct mt_heap_ops ops;

	behind = given;
	ops = *given;
	ops.realloc = late_realloc;
	ops.free = late_free;
	ops.malloc_usable_size = late_malloc_usable_size;
	return &ops;
}
