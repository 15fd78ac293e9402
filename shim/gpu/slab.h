/* gpu/slab.h -- memory for the pool's tables, straight from the kernel. Never malloc: the pool runs
 * inside cuMemAlloc, which may run inside the program's own malloc hooks. Nothing is ever unmapped,
 * so that a record that another thread has just let go of can still be looked at (its owner is
 * checked again under the owner's lock). */
#ifndef MT_GPU_SLAB_H
#define MT_GPU_SLAB_H

#include <stddef.h>

#include "sys/lock.h"

/* Zeroed memory; NULL where the kernel has none. Keeps errno. Takes a lock (piece) for small ones.
 */
void *mt_slab_map(size_t bytes);

/* Objects of one size, handed out and taken back. The first word of a returned object is
 * overwritten. */
struct mt_slab {
	struct mt_lock lock;
	size_t object_bytes;
	void *spare;       /* returned objects, linked through their first word */
	char *fresh, *end; /* the rest of the newest chunk */
	struct mt_chunk *chunks;
};

struct mt_chunk {
	struct mt_chunk *next;
	char *objects; /* the first of them */
	char *end;     /* behind the last */
};

#define MT_SLAB(type)                                                                              \
	{                                                                                          \
		.lock = MT_LOCK(slab), .object_bytes = sizeof(type)                                \
	}

/* Not zeroed where it has been in use before. NULL where nothing can be mapped. */
void *mt_slab_alloc(struct mt_slab *slab);
void mt_slab_free(struct mt_slab *slab, void *object);

/* In a forked child, or for a test's new start: forgets all objects (what they lay in stays
 * mapped). */
void mt_slab_forget(struct mt_slab *slab);

#endif
