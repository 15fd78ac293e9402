/* gpu/bins.h -- from a size to cached blocks that fit it, in constant time. One struct mt_bins a
 * context and kind of block (idle or pending), protected by the context's lock. Up to 1 MiB a bin
 * is one multiple of 512 B. Above, each power of two is cut into 64 bins, so that a bin's sizes
 * differ by 1.6 % at most: a request looks at its own bin and at those that lie up to 12.5 %
 * higher, as far as the driver would take the same number of pages for both. A larger block would
 * hold memory that a program which knows its device's size counts on. */
#ifndef MT_GPU_BINS_H
#define MT_GPU_BINS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/blocks.h"

/* the driver's own unit is 256 or 512 B */
#define MT_BIN_UNIT   512u
#define MT_BIN_SMALL  (1024u * 1024)
#define MT_BIN_SMALLS (MT_BIN_SMALL / MT_BIN_UNIT)
/* what the driver takes memory above MT_BIN_SMALL in */
#define MT_BIN_PAGE  (2u * 1024 * 1024)
#define MT_BIN_PARTS 64u
#define MT_BIN_COUNT (MT_BIN_SMALLS + 28u * MT_BIN_PARTS)

struct mt_bins {
	uint64_t filled[MT_BIN_COUNT / 64]; /* a bit for each bin with blocks */
	struct mt_bin {
		struct mt_block *first, *last;
	} bins[MT_BIN_COUNT];
};

/* What a request asks of a cached block. */
struct mt_fit {
	uint64_t bytes;           /* rounded */
	uint64_t max_split_bytes; /* blocks above it fit only exactly; 0 for none */
};

/* In whole pages of the driver's. */
static inline uint64_t mt_bins_pages(uint64_t bytes)
{
	return (bytes + MT_BIN_PAGE - 1) / MT_BIN_PAGE * MT_BIN_PAGE;
}

/* What the driver is asked for: up to a 1/divisions of its power of two (0: not), then up to 512 B.
 * 0 where that overflows, and where the driver would take a page for what shares one as it was
 * asked for: just below MT_BIN_SMALL. */
uint64_t mt_bins_round(uint64_t bytes, uint32_t divisions);

uint32_t mt_bins_index(uint64_t bytes);
void mt_bins_add_first(struct mt_bins *bins, struct mt_block *block);
void mt_bins_add_last(struct mt_bins *bins, struct mt_block *block);
void mt_bins_remove(struct mt_bins *bins, struct mt_block *block);

/* A block that fits, an exact one before a larger one; NULL for none. Looks at 16 blocks of a bin
 * at most. Does not take it out. */
struct mt_block *mt_bins_find(const struct mt_bins *bins, const struct mt_fit *fit);

/* Bytes of the largest block; of those above 1 MiB it looks at 64 in a bin, and so may tell 1.6 %
 * less. */
uint64_t mt_bins_largest(const struct mt_bins *bins);

#endif
