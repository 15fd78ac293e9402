/* gpu/blocks.h -- the records of device blocks, the table from a pointer to its record, and the
 * bins from a size to the cached blocks that fit it. A record is written under its context's lock;
 * its node belongs to the table. The table is cut into 64 shards (gpu/records.h), each with a lock
 * (shard); a look-up takes it only if it has found nothing without. Any thread may call. Never
 * makes a call to the driver, never calls malloc. */
#ifndef MT_GPU_BLOCKS_H
#define MT_GPU_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/records.h"

struct mt_context;
struct mt_event;

enum mt_block_state {
	MT_BLOCK_UNUSED,  /* a spare record */
	MT_BLOCK_LIVE,    /* the program has it */
	MT_BLOCK_PENDING, /* freed; work that may use it still runs */
	MT_BLOCK_IDLE,    /* freed and ready */
	MT_BLOCK_LEAVING  /* out of the table, being freed by the driver */
};

struct mt_block {
	/* First: the slab's link. The list of its bin: idle or pending blocks. */
	struct mt_block *bin_next, *bin_prev;
	/* Base and context are read without a lock by a look-up, and again under the lock of the
	 * context that was read. Order: none needed. */
	struct mt_pointer_node node; /* its key is the base */
	_Atomic(struct mt_context *) context;
	uint64_t bytes;       /* as asked of the driver */
	uint64_t asked_bytes; /* as the program asked */
	uint64_t since_ns;    /* coarse clock: when it was handed out, or freed */
	/* the list of the context's pending or idle blocks, oldest first */
	struct mt_block *line_next, *line_prev;
	/* of a pending block: its events that are not known to be done, that of its own context
	 * first */
	struct mt_event *events;
	uint32_t bin;
	uint8_t state; /* enum mt_block_state */
	bool is_non_recyclable;
	/* pending, and a thread asks the driver about it with no lock held: it stays if it is */
	bool is_busy;
	bool is_stale; /* its memory went unseen: forgotten by that thread */
};

struct mt_block_line {
	struct mt_block *first, *last;
};

static inline uint64_t mt_block_base(const struct mt_block *block)
{
	return atomic_load_explicit(&block->node.key, memory_order_relaxed);
}

/* Returns a spare record; NULL if nothing can be mapped. */
struct mt_block *mt_block_reserve(void);

/* Makes a record spare again: it is in no table and no list, and if it has a context, that one's
 * lock is held. */
void mt_block_release(struct mt_block *block);

/* Returns the record with this base, or NULL. The record may leave at any moment: see struct
 * mt_block. */
struct mt_block *mt_blocks_find(uint64_t base);

/* Puts a record in. Another record with the same base is stale: it is taken out and returned; else
 * NULL. */
struct mt_block *mt_blocks_insert(struct mt_block *block);

/* Takes a record out; false if it is not in. */
bool mt_blocks_remove(struct mt_block *block);

/* Walks over each record that was ever handed out, used or spare; the caller checks it. Slow.
 * Records handed out for the first time since the start may be missing; none comes twice. */
struct mt_block_walk {
	const struct mt_chunk *chunk;
	char *at, *end;
};
struct mt_block_walk mt_blocks_walk_start(void);
struct mt_block *mt_blocks_walk_next(struct mt_block_walk *walk); /* NULL: that was all */

/* Forgets everything: in a forked child, or when a test starts again. */
void mt_blocks_forget(void);

void mt_line_append(struct mt_block_line *line, struct mt_block *block);
void mt_line_remove(struct mt_block_line *line, struct mt_block *block);

/* ---- bins: the idle or pending blocks of one context, whose lock the caller holds.
 *
 * Up to 1 MiB a bin is one multiple of 512 B. Above, each power of two is cut into 64 bins, so that
 * the sizes of a bin differ by up to 1.6 %. A request looks at its own bin and at those up to 12.5
 * % higher, as far as the driver would take the same number of pages for both. A larger block would
 * hold memory on which a program that knows its device's size relies. ---- */

/* the driver's own unit is 256 or 512 B */
#define MT_BIN_UNIT   512u
#define MT_BIN_SMALL  (1024u * 1024)
#define MT_BIN_SMALLS (MT_BIN_SMALL / MT_BIN_UNIT)
/* the driver takes memory above MT_BIN_SMALL in pages of this size */
#define MT_BIN_PAGE  (2u * 1024 * 1024)
#define MT_BIN_PARTS 64u
#define MT_BIN_COUNT (MT_BIN_SMALLS + 28u * MT_BIN_PARTS)

struct mt_bins {
	uint64_t filled[MT_BIN_COUNT / 64]; /* a bit for each bin with blocks */
	struct mt_bin {
		struct mt_block *first, *last;
	} bins[MT_BIN_COUNT];
};

/* Rounds up to whole pages of the driver. */
static inline uint64_t mt_bins_pages(uint64_t bytes)
{
	return (bytes + MT_BIN_PAGE - 1) / MT_BIN_PAGE * MT_BIN_PAGE;
}

/* Returns the size to ask the driver for: `bytes` rounded up to 512 B. Returns 0 if that
 * overflows, and just below MT_BIN_SMALL, if the driver would take a whole page for the rounded
 * size alone. */
uint64_t mt_bins_round(uint64_t bytes);

uint32_t mt_bins_index(uint64_t bytes);
void mt_bins_add_first(struct mt_bins *bins, struct mt_block *block);
void mt_bins_add_last(struct mt_bins *bins, struct mt_block *block);
void mt_bins_remove(struct mt_bins *bins, struct mt_block *block);

/* Returns a block that fits so many bytes, as mt_bins_round gives them, an exact one before a
 * larger one, and leaves it in its bin; NULL: none. Looks at up to 16 blocks of a bin. */
struct mt_block *mt_bins_find(const struct mt_bins *bins, uint64_t bytes);

/* Returns the bytes of the largest block. Above 1 MiB it looks at 64 blocks of a bin, so that the
 * result may be 1.6 % too low. */
uint64_t mt_bins_largest(const struct mt_bins *bins);

#endif
