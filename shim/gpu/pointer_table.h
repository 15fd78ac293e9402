/* gpu/pointer_table.h -- a hash table from a 64-bit key, a device pointer or a handle of the
 * driver, to a node that its owner embeds in a record. It grows by one bucket an insertion (linear
 * hashing over segments that double), so that no call pays for the growth. Its memory is mapped
 * (gpu/slab.h) and never unmapped; where none can be mapped the chains get longer, and nothing
 * fails.
 *
 * The table owns the links of the nodes, never their records. The caller locks: every function
 * needs the table's lock but mt_pointer_table_peek, which may run beside all of them. */
#ifndef MT_GPU_POINTER_TABLE_H
#define MT_GPU_POINTER_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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

/* Takes a node out. False where it is not in. */
bool mt_pointer_table_remove(struct mt_pointer_table *table, struct mt_pointer_node *node);

/* Takes out every node for which `matches` says true, which may free it. Slow: looks at all. */
void mt_pointer_table_remove_if(struct mt_pointer_table *table,
				bool (*matches)(struct mt_pointer_node *node, void *data),
				void *data);

#endif
