/* gpu/slab.h -- memory for the pool's records, straight from the kernel. Never malloc: the pool
 * runs inside cuMemAlloc, which may run inside the program's malloc hooks. Nothing is ever
 * unmapped, so that a record which another thread has just freed stays readable (the reader checks
 * it again under its owner's lock). Any thread; locks `slab` and `piece`. */
#ifndef MT_GPU_SLAB_H
#define MT_GPU_SLAB_H

#include <stddef.h>

#include "sys/lock.h"

/* Returns zeroed memory; NULL where the kernel has none. Keeps errno. Takes the lock `piece` for
 * small sizes. */
void *mt_slab_map(size_t bytes);

/* Objects of one size. The first word of a freed object is overwritten. */
struct mt_slab {
	struct mt_lock lock;
	size_t object_bytes;
	void *spare;       /* freed objects, linked through their first word */
	char *fresh, *end; /* the rest of the newest chunk */
	struct mt_chunk *chunks;
};

struct mt_chunk {
	struct mt_chunk *next;
	char *objects; /* the first of them */
	char *end;     /* after the last */
};

#define MT_SLAB(type)                                                                              \
	{                                                                                          \
		.lock = MT_LOCK(slab), .object_bytes = sizeof(type)                                \
	}

/* Returns an object, not zeroed where it was in use before; NULL where nothing can be mapped. */
void *mt_slab_alloc(struct mt_slab *slab);
void mt_slab_free(struct mt_slab *slab, void *object);

/* In a forked child, or when a test starts again: forgets all objects. Their memory stays mapped.
 */
void mt_slab_forget(struct mt_slab *slab);

#endif
