#include "gpu/bins.h"

#include <stddef.h>

#define LOOK_MAX    16 /* blocks of one bin that a search looks at */
#define LARGEST_MAX 64 /* and mt_bins_largest */

uint64_t mt_bins_round(uint64_t bytes, uint32_t divisions)
{
	uint64_t unit = MT_BIN_UNIT, rounded;

	if (bytes > (1ull << 62))
		return 0;
	if (divisions <= 1) { /* the usual case, without a division */
		rounded = (bytes + MT_BIN_UNIT - 1) & ~(uint64_t)(MT_BIN_UNIT - 1);
		return rounded == MT_BIN_SMALL && bytes < MT_BIN_SMALL ? 0 : rounded;
	}
	if (bytes > MT_BIN_UNIT) {
		uint64_t power = 1ull << (63 - __builtin_clzll(bytes));

		if (power / divisions > unit)
			unit = power / divisions;
	}
	return (bytes + unit - 1) / unit * unit;
}

uint32_t mt_bins_index(uint64_t bytes)
{
	uint32_t power, index;

	if (bytes <= MT_BIN_SMALL)
		return (uint32_t)((bytes + MT_BIN_UNIT - 1) / MT_BIN_UNIT) - 1;
	power = 63 - (uint32_t)__builtin_clzll(bytes);
	index = MT_BIN_SMALLS + (power - 20) * MT_BIN_PARTS +
		(uint32_t)((bytes >> (power - 6)) & (MT_BIN_PARTS - 1));
	return index < MT_BIN_COUNT ? index : MT_BIN_COUNT - 1;
}

static void mark(struct mt_bins *bins, uint32_t index)
{
	bins->filled[index / 64] |= 1ull << (index % 64);
}

void mt_bins_add_first(struct mt_bins *bins, struct mt_block *block)
{
	struct mt_bin *bin = &bins->bins[block->bin];

	block->bin_prev = NULL;
	block->bin_next = bin->first;
	if (bin->first)
		bin->first->bin_prev = block;
	else
		bin->last = block;
	bin->first = block;
	mark(bins, block->bin);
}

void mt_bins_add_last(struct mt_bins *bins, struct mt_block *block)
{
	struct mt_bin *bin = &bins->bins[block->bin];

	block->bin_next = NULL;
	block->bin_prev = bin->last;
	if (bin->last)
		bin->last->bin_next = block;
	else
		bin->first = block;
	bin->last = block;
	mark(bins, block->bin);
}

void mt_bins_remove(struct mt_bins *bins, struct mt_block *block)
{
	struct mt_bin *bin = &bins->bins[block->bin];

	if (block->bin_prev)
		block->bin_prev->bin_next = block->bin_next;
	else
		bin->first = block->bin_next;
	if (block->bin_next)
		block->bin_next->bin_prev = block->bin_prev;
	else
		bin->last = block->bin_prev;
	if (!bin->first)
		bins->filled[block->bin / 64] &= ~(1ull << (block->bin % 64));
}

/* The largest block that may serve a request: it takes no more pages of the device. */
static uint64_t highest(uint64_t bytes)
{
	uint64_t eighth = bytes + bytes / 8;
	uint64_t page = mt_bins_pages(bytes);

	return eighth < page ? eighth : page;
}

static bool fits(const struct mt_block *block, const struct mt_fit *fit)
{
	if (block->bytes == fit->bytes)
		return true;
	if (block->bytes < fit->bytes || block->bytes > highest(fit->bytes))
		return false;
	return fit->max_split_bytes == 0 || block->bytes <= fit->max_split_bytes;
}

static struct mt_block *look(const struct mt_bins *bins, uint32_t index, const struct mt_fit *fit)
{
	struct mt_block *best = NULL;
	struct mt_block *block = bins->bins[index].first;

	for (int seen = 0; block && seen < LOOK_MAX; seen++, block = block->bin_next) {
		if (block->bytes == fit->bytes)
			return block;
		if (fits(block, fit) && (!best || block->bytes < best->bytes))
			best = block;
	}
	return best;
}

struct mt_block *mt_bins_find(const struct mt_bins *bins, const struct mt_fit *fit)
{
	uint32_t index = mt_bins_index(fit->bytes);
	uint32_t last = index;
	struct mt_block *block;

	if (fit->bytes > MT_BIN_SMALL)
		last = mt_bins_index(highest(fit->bytes));
	for (; index <= last; index++) {
		uint64_t filled = bins->filled[index / 64] >> (index % 64);

		if (!filled) {
			index |= 63; /* the next word */
			continue;
		}
		index += (uint32_t)__builtin_ctzll(filled);
		block = index <= last ? look(bins, index, fit) : NULL;
		if (block)
			return block;
	}
	return NULL;
}

/* Runs under the context's lock each time the figures are read, and a bin may hold a hundred
 * thousand blocks. */
static uint64_t largest_of(const struct mt_bins *bins, uint32_t index)
{
	uint64_t largest = 0;
	int limit = index < MT_BIN_SMALLS ? 1 : LARGEST_MAX; /* these bins have one size each */
	const struct mt_block *block = bins->bins[index].first;

	for (int seen = 0; block && seen < limit; seen++, block = block->bin_next)
		if (block->bytes > largest)
			largest = block->bytes;
	return largest;
}

uint64_t mt_bins_largest(const struct mt_bins *bins)
{
	for (uint32_t word = MT_BIN_COUNT / 64; word-- > 0;)
		if (bins->filled[word])
			return largest_of(bins,
					  word * 64 + 63 -
						  (uint32_t)__builtin_clzll(bins->filled[word]));
	return 0;
}
