/* gpu/bins.h -- from a size to the cached blocks that fit it, in constant time.
 *
 * Owns the lists of one context's idle or pending blocks. The caller holds the context's lock.
 * Makes no call to the driver and allocates nothing.
 *
 * Up to 1 MiB a bin is one multiple of 512 B. Above, each power of two is cut into 64 bins, so that
 * the sizes of a bin differ by up to 1.6 %. A request looks at its own bin and at those up to 12.5
 * % higher, as far as the driver would take the same number of pages for both. A larger block would
 * hold memory on which a program that knows its device's size relies. */
#ifndef MT_GPU_BINS_H
#define MT_GPU_BINS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/blocks.h"

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

/* A request for a cached block. */
struct mt_fit {
	uint64_t bytes;           /* rounded */
	uint64_t max_split_bytes; /* larger blocks fit only exactly; 0: no such limit */
};

/* Rounds up to whole pages of the driver. */
static inline uint64_t mt_bins_pages(uint64_t bytes)
{
	return (bytes + MT_BIN_PAGE - 1) / MT_BIN_PAGE * MT_BIN_PAGE;
}

/* Returns the size to ask the driver for: `bytes` rounded up to 1/divisions of its power of two (0:
 * not), then to 512 B. Returns 0 where that overflows, and just below MT_BIN_SMALL, where the
 * driver would take a whole page for the rounded size alone. */
uint64_t mt_bins_round(uint64_t bytes, uint32_t divisions);

uint32_t mt_bins_index(uint64_t bytes);
void mt_bins_add_first(struct mt_bins *bins, struct mt_block *block);
void mt_bins_add_last(struct mt_bins *bins, struct mt_block *block);
void mt_bins_remove(struct mt_bins *bins, struct mt_block *block);

/* Returns a block that fits, an exact one before a larger one, and leaves it in its bin; NULL:
 * none. Looks at up to 16 blocks of a bin. */
struct mt_block *mt_bins_find(const struct mt_bins *bins, const struct mt_fit *fit);

/* Returns the bytes of the largest block. Above 1 MiB it looks at 64 blocks of a bin, so that the
 * result may be 1.6 % too low. */
uint64_t mt_bins_largest(const struct mt_bins *bins);

#endif
