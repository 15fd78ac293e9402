/* object.c -- handles. Each type has an address range of its own, so that any pointer can be
 * checked without following it, and a dead one is used again only after many others: a handle kept
 * too long is refused, not mistaken. */
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"

enum { SLOT_COUNT = 1 << 20, REST_COUNT = 1024 };

static struct pool {
	char *base;
	size_t slot_bytes;
	unsigned int used;  /* slots ever handed out */
	unsigned int *free; /* a ring of dead ones, oldest first */
	unsigned int first, count;
} pools[FAKE_TYPE_COUNT];
static uint64_t last_id;

void *fake_alloc(size_t bytes)
{
	void *memory = calloc(1, bytes ? bytes : 1);

	if (memory == NULL)
		abort();
	return memory;
}

uint64_t fake_next_id(void)
{
	return ++last_id;
}

static void *reserve(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

void *fake_object_new(enum fake_type type, size_t bytes)
{
	struct pool *pool = &pools[type];
	struct fake_object *object;
	unsigned int slot;

	if (pool->base == NULL) {
		pool->slot_bytes = (bytes + 63) & ~(size_t)63;
		pool->base = reserve(pool->slot_bytes * SLOT_COUNT);
		pool->free = reserve(sizeof(*pool->free) * SLOT_COUNT);
	}
	if (pool->count > REST_COUNT || (pool->used == SLOT_COUNT && pool->count > 0)) {
		slot = pool->free[pool->first];
		pool->first = (pool->first + 1) % SLOT_COUNT;
		pool->count--;
	} else if (pool->used < SLOT_COUNT) {
		slot = pool->used++;
	} else {
		return NULL;
	}
	object = (struct fake_object *)(void *)(pool->base + slot * pool->slot_bytes);
	object->id = fake_next_id();
	return object;
}

void fake_object_free(enum fake_type type, void *object)
{
	struct pool *pool = &pools[type];

	((struct fake_object *)object)->id = 0;
	pool->free[(pool->first + pool->count) % SLOT_COUNT] =
		(unsigned int)(((char *)object - pool->base) / (ptrdiff_t)pool->slot_bytes);
	pool->count++;
}

bool fake_object_is(enum fake_type type, const void *object)
{
	const struct pool *pool = &pools[type];
	const uintptr_t offset = (uintptr_t)object - (uintptr_t)pool->base;

	if (pool->base == NULL || offset >= pool->used * pool->slot_bytes ||
	    offset % pool->slot_bytes != 0)
		return false;
	return ((const struct fake_object *)object)->id != 0;
}
