/* gpu/blocks.h -- memory for the pool's records, the table from a pointer or handle to its record,
 * device blocks, and the bins from a size to the cached blocks that fit it.
 *
 * Memory comes straight from the kernel. Never malloc: the pool runs inside cuMemAlloc, which may
 * run inside the program's malloc hooks. Nothing is ever unmapped, so that a record which another
 * thread has just freed stays readable (the reader checks it again under its owner's lock).
 *
 * Any thread may call. Never makes a call to the driver. */
#ifndef MT_GPU_BLOCKS_H
#define MT_GPU_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/atomic.h"
#include "sys/lock.h"

/* ---- memory ---- */

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

/* ---- a hash table from a 64-bit key to a node that its owner embeds in a record: 32,768 buckets
 * with chains. The table owns the links of the nodes, never their records. The caller locks.
 * ---- */

#define MT_POINTER_BUCKETS 32768u

/* The first member of a record: that of a slab may have its link in the same word, since a record
 * that is free is in no table. */
struct mt_pointer_node {
	struct mt_pointer_node *next;
	_Atomic uint64_t key; /* written by its owner while it is in no table */
};

/* Zeroed: without buckets, which is empty. */
struct mt_pointer_table {
	struct mt_pointer_node **buckets;
};

/* Maps the buckets unless they are: before the first insertion. Returns false if the kernel has no
 * memory. A page of them becomes resident when it is first written. */
bool mt_pointer_table_map(struct mt_pointer_table *table);

/* Returns a key's bucket, by the high bits of the hash, which depend on all bits of the key.
 * Pure. */
static inline uint64_t mt_pointer_bucket(uint64_t key)
{
	/* 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4). Blocks lie 512 bytes apart or more;
	 * handles and numbers may follow each other. */
	return (key ^ key >> 8) * 0x9e3779b97f4a7c15ull / (UINT64_MAX / MT_POINTER_BUCKETS + 1);
}

/* Returns the node with this key, or NULL. */
struct mt_pointer_node *mt_pointer_table_find(const struct mt_pointer_table *table, uint64_t key);

/* Puts a node in. Another node with the same key is stale: it is taken out and returned, else
 * NULL. */
struct mt_pointer_node *mt_pointer_table_insert(struct mt_pointer_table *table,
						struct mt_pointer_node *node);

/* Takes a node out. False if it is not in. The buckets are mapped. */
bool mt_pointer_table_remove(struct mt_pointer_table *table, struct mt_pointer_node *node);

/* Takes out every node for which `matches` says true, which may free it. Slow: looks at all. */
void mt_pointer_table_remove_if(struct mt_pointer_table *table,
				bool (*matches)(struct mt_pointer_node *node, void *data),
				void *data);

/* ---- blocks ---- */

struct mt_context;
struct mt_event;

/* From LIVE on a block is in the table and in the figures. */
enum mt_block_state {
	MT_BLOCK_UNUSED,  /* a spare record */
	MT_BLOCK_LEAVING, /* being freed by the driver */
	MT_BLOCK_STALE,   /* was busy, and its memory went unseen: that thread forgets it */
	MT_BLOCK_LIVE,    /* the program has it */
	MT_BLOCK_PENDING, /* freed; work that may use it still runs */
	/* freed, in no list: a thread asks the driver about it with no lock held, and owns it */
	MT_BLOCK_BUSY,
	MT_BLOCK_IDLE /* freed and ready */
};

struct mt_block {
	/* Base and context are read without a lock by a look-up, and again under the lock of the
	 * context that was read. Order: none needed. */
	struct mt_pointer_node node; /* its key is the base */
	_Atomic(struct mt_context *) context;
	/* Of an idle block the next one of its size, and the one before; of the first of its size,
	 * the first of the next smaller size in its bin. */
	struct mt_block *bin_next, *bin_prev;
	uint64_t bytes;       /* as asked of the driver */
	uint64_t asked_bytes; /* as the program asked */
	uint64_t since_ns;    /* coarse clock: when it was handed out, or freed */
	/* the list of the context's pending or idle blocks, oldest first */
	struct mt_block *line_next, *line_prev;
	union {
		struct mt_event *event; /* of a pending or busy block */
		/* of the first idle one of its size: the first of the next larger in its bin */
		struct mt_block *larger;
	};
	uint32_t bin;
	uint8_t state; /* enum mt_block_state */
	bool is_non_recyclable;
};

struct mt_block_line {
	struct mt_block *first, *last;
};

static inline uint64_t mt_block_base(const struct mt_block *block)
{
	return mt_load_relaxed(&block->node.key);
}

static inline struct mt_context *mt_block_context(struct mt_block *block)
{
	return mt_load_relaxed(&block->context);
}

/* Puts a block behind `prev`; NULL: at the beginning. */
void mt_line_insert(struct mt_block_line *line, struct mt_block *block, struct mt_block *prev);
void mt_line_remove(struct mt_block_line *line, struct mt_block *block);

/* ---- bins: the idle blocks of one context, whose lock the caller holds.
 *
 * Up to 1 MiB a bin is one multiple of 512 B. Above, each power of two has 64 bins. A bin is a list
 * of the sizes in it, by size, and a size is a list of blocks. A request looks at its own bin and
 * those up to 12.5 % higher, as far as the driver would take the same number of pages for both. A
 * larger block would hold memory on which a program that knows its device's size relies. ---- */

/* the driver's own unit is 256 or 512 B */
#define MT_BIN_UNIT   512u
#define MT_BIN_SMALL  (1024u * 1024)
#define MT_BIN_SMALLS (MT_BIN_SMALL / MT_BIN_UNIT)
/* the driver takes memory above MT_BIN_SMALL in pages of this size */
#define MT_BIN_PAGE (2u * 1024 * 1024)
/* larger blocks: so many bins to each power of two */
#define MT_BIN_PARTS 64u
#define MT_BIN_COUNT (MT_BIN_SMALLS + 28u * MT_BIN_PARTS)

struct mt_bins {
	struct mt_block *first[MT_BIN_COUNT];
};

/* Rounds up to whole pages of the driver. */
static inline uint64_t mt_bins_pages(uint64_t bytes)
{
	return (bytes + MT_BIN_PAGE - 1) / MT_BIN_PAGE * MT_BIN_PAGE;
}

/* What the driver charges for a block. Small blocks share pages: then the block's own bytes. */
static inline uint64_t mt_block_charge(const struct mt_block *block)
{
	return block->bytes < MT_BIN_SMALL ? block->bytes : mt_bins_pages(block->bytes);
}

/* Returns the size to ask the driver for: `bytes` rounded up to 512 B. Returns 0 if that overflows,
 * and just below MT_BIN_SMALL, if the driver would take a whole page for the rounded size alone. */
uint64_t mt_bins_round(uint64_t bytes);

uint32_t mt_bins_index(uint64_t bytes);
void mt_bins_add(struct mt_bins *bins, struct mt_block *block);
void mt_bins_remove(struct mt_bins *bins, struct mt_block *block);

/* Returns the smallest block that fits so many bytes, as mt_bins_round gives them, of its size the
 * one that was added last, and leaves it in its bin; NULL: none. */
struct mt_block *mt_bins_find(const struct mt_bins *bins, uint64_t bytes);

#endif
