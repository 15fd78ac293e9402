#include "gpu/blocks.h"

#include <errno.h>
#include <sys/mman.h>

#include "sys/attr.h"
#include "sys/saturating.h"

#define CHUNK_BYTES (128u * 1024)

/* ---- memory ---- */

void *mt_slab_map(size_t bytes)
{
	int kept = errno;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = kept;
	return at == MAP_FAILED ? NULL : at;
}

static void extend(struct mt_slab *slab)
{
	char *memory = mt_slab_map(CHUNK_BYTES);
	struct mt_chunk *chunk = (struct mt_chunk *)memory;
	size_t usable = CHUNK_BYTES - 64;

	if (!memory)
		return;
	chunk->objects = memory + 64;
	chunk->end = chunk->objects + usable - usable % slab->object_bytes;
	mt_assert(slab->object_bytes >= sizeof(void *) && slab->object_bytes <= usable);
	chunk->next = slab->chunks;
	slab->chunks = chunk;
	slab->fresh = chunk->objects;
	slab->end = chunk->end;
}

void *mt_slab_alloc(struct mt_slab *slab)
{
	void *object = NULL;

	mt_lock_lock(&slab->lock);
	if (slab->spare) {
		object = slab->spare;
		slab->spare = *(void **)object;
	} else {
		if (slab->fresh == slab->end)
			extend(slab);
		if (slab->fresh != slab->end) {
			object = slab->fresh;
			slab->fresh += slab->object_bytes;
		}
	}
	mt_lock_unlock(&slab->lock);
	return object;
}

void mt_slab_free(struct mt_slab *slab, void *object)
{
	mt_assert(object);
	mt_lock_lock(&slab->lock);
	*(void **)object = slab->spare;
	slab->spare = object;
	mt_lock_unlock(&slab->lock);
}

/* ---- the table ---- */

bool mt_pointer_table_map(struct mt_pointer_table *table)
{
	if (mt_unlikely(!table->buckets))
		table->buckets = mt_slab_map(MT_POINTER_BUCKETS * sizeof(*table->buckets));
	return table->buckets != NULL;
}

struct mt_pointer_node *mt_pointer_table_find(const struct mt_pointer_table *table, uint64_t key)
{
	struct mt_pointer_node *node =
		table->buckets ? table->buckets[mt_pointer_bucket(key)] : NULL;

	while (node && mt_load_relaxed(&node->key) != key)
		node = node->next;
	return node;
}

struct mt_pointer_node *mt_pointer_table_insert(struct mt_pointer_table *table,
						struct mt_pointer_node *node)
{
	uint64_t key = mt_load_relaxed(&node->key);
	struct mt_pointer_node *stale = mt_pointer_table_find(table, key);

	mt_assert(table->buckets);
	if (stale)
		(void)mt_pointer_table_remove(table, stale);
	node->next = table->buckets[mt_pointer_bucket(key)];
	table->buckets[mt_pointer_bucket(key)] = node;
	return stale;
}

bool mt_pointer_table_remove(struct mt_pointer_table *table, struct mt_pointer_node *node)
{
	struct mt_pointer_node **link =
		&table->buckets[mt_pointer_bucket(mt_load_relaxed(&node->key))];

	while (*link && *link != node)
		link = &(*link)->next;
	if (!*link)
		return false;
	*link = node->next;
	return true;
}

void mt_pointer_table_remove_if(struct mt_pointer_table *table,
				bool (*matches)(struct mt_pointer_node *node, void *data),
				void *data)
{
	for (uint32_t at = 0; table->buckets && at < MT_POINTER_BUCKETS; at++) {
		struct mt_pointer_node **link = &table->buckets[at], *node, *next;

		while ((node = *link) != NULL) {
			next = node->next;
			if (matches(node, data))
				*link = next;
			else
				link = &node->next;
		}
	}
}

/* ---- lists and bins ---- */

void mt_line_insert(struct mt_block_line *line, struct mt_block *block, struct mt_block *prev)
{
	struct mt_block *next = prev ? prev->line_next : line->first;

	mt_assert(line->last != block && !line->last == !line->first);
	block->line_prev = prev;
	block->line_next = next;
	if (prev)
		prev->line_next = block;
	else
		line->first = block;
	if (next)
		next->line_prev = block;
	else
		line->last = block;
}

void mt_line_remove(struct mt_block_line *line, struct mt_block *block)
{
	mt_assert(line->first && line->last);
	mt_assert(block->line_prev ? block->line_prev->line_next == block : line->first == block);
	if (block->line_prev)
		block->line_prev->line_next = block->line_next;
	else
		line->first = block->line_next;
	if (block->line_next)
		block->line_next->line_prev = block->line_prev;
	else
		line->last = block->line_prev;
}

uint64_t mt_bins_round(uint64_t bytes)
{
	uint64_t rounded;

	if (bytes > (1ull << 62))
		return 0;
	rounded = (bytes + MT_BIN_UNIT - 1) & ~(uint64_t)(MT_BIN_UNIT - 1);
	return rounded == MT_BIN_SMALL && bytes < MT_BIN_SMALL ? 0 : rounded;
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

void mt_bins_add(struct mt_bins *bins, struct mt_block *block)
{
	struct mt_block **link = &bins->first[block->bin], *smaller = NULL, *same;

	mt_assert(block->bin < MT_BIN_COUNT && !block->event);
	while (*link && (*link)->bytes < block->bytes) {
		smaller = *link;
		link = &smaller->larger;
	}
	same = *link && (*link)->bytes == block->bytes ? *link : NULL;
	block->larger = same ? same->larger : *link;
	block->bin_next = same;
	block->bin_prev = smaller;
	if (same) {
		same->larger = NULL;
		same->bin_prev = block;
	}
	if (block->larger)
		block->larger->bin_prev = block;
	*link = block;
}

void mt_bins_remove(struct mt_bins *bins, struct mt_block *block)
{
	struct mt_block *next = block->bin_next, *prev = block->bin_prev, *larger = block->larger;
	struct mt_block **link = prev ? &prev->larger : &bins->first[block->bin];

	if (prev && prev->bytes == block->bytes) {
		prev->bin_next = next;
		if (next)
			next->bin_prev = prev;
		return;
	}
	mt_assert(*link == block);
	*link = next ? next : larger;
	if (next) {
		next->larger = larger;
		next->bin_prev = prev;
	}
	if (larger)
		larger->bin_prev = next ? next : prev;
	block->larger = NULL;
}

struct mt_block *mt_bins_find(const struct mt_bins *bins, uint64_t bytes)
{
	/* Of larger blocks one that takes no more pages of the device. */
	uint64_t most =
		bytes > MT_BIN_SMALL ? mt_min_u64(bytes + bytes / 8, mt_bins_pages(bytes)) : bytes;
	uint32_t last = mt_bins_index(most);

	mt_assert(bytes > 0 && bytes % MT_BIN_UNIT == 0);
	for (uint32_t index = mt_bins_index(bytes); index <= last; index++) {
		struct mt_block *block = bins->first[index];

		while (block && block->bytes < bytes)
			block = block->larger;
		if (block)
			return block->bytes <= most ? block : NULL;
	}
	return NULL;
}
