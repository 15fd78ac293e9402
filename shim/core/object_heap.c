#include "core/object_heap.h"

#include <stdatomic.h>
#include <stddef.h>

/* Each is set once; what it points to never changes. No ordering. */
static _Atomic(const struct mt_object_heap_ops *) ops;
typedef void (*grew_fn)(uint64_t bytes);
static _Atomic(grew_fn) listener;
typedef void (*exceeds_fn)(void);
static _Atomic(exceeds_fn) limit_listener;

static const struct mt_object_heap_ops *get(void)
{
	return atomic_load_explicit(&ops, memory_order_relaxed);
}

void mt_object_heap_set(const struct mt_object_heap_ops *given)
{
	atomic_store_explicit(&ops, given, memory_order_relaxed);
}

bool mt_object_heap_is_there(void)
{
	return get() != NULL;
}

void mt_object_heap_read(struct mt_object_heap_figures *out, bool exact)
{
	*out = (struct mt_object_heap_figures){0};
	if (get())
		get()->read(out, exact);
}

uint64_t mt_object_heap_purge(uint64_t keep_bytes, bool (*enter)(void), void (*leave)(void))
{
	return get() ? get()->purge(keep_bytes, enter, leave) : 0;
}

void mt_object_heap_limit(uint64_t address_bytes, uint64_t data_bytes)
{
	if (get())
		get()->limit(address_bytes, data_bytes);
}

void mt_object_heap_listen(void (*grew)(uint64_t bytes), void (*exceeds)(void))
{
	atomic_store_explicit(&limit_listener, exceeds, memory_order_relaxed);
	atomic_store_explicit(&listener, grew, memory_order_relaxed);
}

void mt_object_heap_grew(uint64_t bytes)
{
	grew_fn grew = atomic_load_explicit(&listener, memory_order_relaxed);

	if (grew)
		grew(bytes);
}

void mt_object_heap_exceeds(void)
{
	exceeds_fn exceeds = atomic_load_explicit(&limit_listener, memory_order_relaxed);

	if (exceeds)
		exceeds();
}
