/* gpu/records.h -- memory for the pool's records, and a table from a device pointer or a handle of
 * the driver to its record.
 *
 * Memory comes straight from the kernel. Never malloc: the pool runs inside cuMemAlloc, which may
 * run inside the program's malloc hooks. Nothing is ever unmapped, so that a record which another
 * thread has just freed stays readable (the reader checks it again under its owner's lock). Any
 * thread; locks `slab` and `piece`.
 *
 * The hash table leads from a 64-bit key to a node that its owner embeds in a record. It grows by
 * one bucket an insertion (linear hashing over segments that double), so that no call pays for the
 * growth. If no memory can be mapped the chains get longer, and nothing fails. The table owns
 * the links of the nodes, never their records. The caller locks: every function needs the table's
 * lock but mt_pointer_table_peek, which may run beside all of them. */
#ifndef MT_GPU_RECORDS_H
#define MT_GPU_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/lock.h"

/* Returns zeroed memory; NULL if the kernel has none. Keeps errno. */
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

/* Returns an object, not zeroed if it was in use before; NULL if nothing can be mapped. */
void *mt_slab_alloc(struct mt_slab *slab);
void mt_slab_free(struct mt_slab *slab, void *object);

/* In a forked child, or when a test starts again: forgets all objects. Their memory stays mapped.
 */
void mt_slab_forget(struct mt_slab *slab);

/* in the table itself; the following segments are mapped */
#define MT_POINTER_BUCKETS  64u
#define MT_POINTER_SEGMENTS 20u /* up to 64 << 19 buckets */

/* Not the first member of a record that lies in a slab: that word is the slab's. */
struct mt_pointer_node {
	_Atomic(struct mt_pointer_node *) next; /* written under the table's lock */
	_Atomic uint64_t key;                   /* written by its owner while it is in no table */
};

/* Zeroed: empty. */
struct mt_pointer_table {
	/* Level in the upper half: MT_POINTER_BUCKETS << level buckets have all been split into; in
	 * the lower how many of them are split once more. One word, for mt_pointer_table_peek: the
	 * release that writes it comes after the segment. */
	_Atomic uint64_t shape;
	uint64_t count; /* of nodes */
	/* 1, 2, ...: segment k holds buckets from MT_POINTER_BUCKETS << (k - 1) on */
	_Atomic(struct mt_pointer_node *) *segments[MT_POINTER_SEGMENTS];
	_Atomic(struct mt_pointer_node *) first[MT_POINTER_BUCKETS];
};

/* Spreads keys over all bits of the result; the six highest are for the caller. Pure. */
static inline uint64_t mt_pointer_hash(uint64_t key)
{
	/* 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4). Blocks lie 512 bytes apart or more;
	 * handles and numbers may follow each other. */
	return (key ^ key >> 8) * 0x9e3779b97f4a7c15ull;
}

/* The node with this key, or NULL. */
struct mt_pointer_node *mt_pointer_table_find(struct mt_pointer_table *table, uint64_t key);

/* The same without the lock. NULL may also mean that the node is just moving to another bucket, or
 * that its chain is long: then look again by mt_pointer_table_find. A node that is returned may be
 * taken out at any moment: its record must stay readable, and the caller checks it again under the
 * lock of its owner. */
struct mt_pointer_node *mt_pointer_table_peek(struct mt_pointer_table *table, uint64_t key);

/* Puts a node in. Another node with the same key is stale: it is taken out and returned, else NULL.
 * May take the lock `piece`. */
struct mt_pointer_node *mt_pointer_table_insert(struct mt_pointer_table *table,
						struct mt_pointer_node *node);

/* Takes a node out. False if it is not in. */
bool mt_pointer_table_remove(struct mt_pointer_table *table, struct mt_pointer_node *node);

/* Takes out every node for which `matches` says true, which may free it. Slow: looks at all. */
void mt_pointer_table_remove_if(struct mt_pointer_table *table,
				bool (*matches)(struct mt_pointer_node *node, void *data),
				void *data);

#endif
