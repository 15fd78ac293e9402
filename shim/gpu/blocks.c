#include "gpu/blocks.h"

#include <string.h>

#include "sys/attr.h"
#include "sys/lock.h"
#include "gpu/slab.h"

#define SHARDS 64u

static struct shard {
	struct mt_lock lock;
	struct mt_pointer_table table;
} __attribute__((aligned(64))) shards[SHARDS];

static struct mt_slab records = MT_SLAB(struct mt_block);

static struct shard *shard_of(uint64_t base)
{
	return &shards[mt_pointer_hash(base) >> 58];
}

static struct mt_block *block_of(struct mt_pointer_node *node)
{
	return node ? (struct mt_block *)(void *)((char *)node - offsetof(struct mt_block, node))
		    : NULL;
}

struct mt_block *mt_block_reserve(void)
{
	struct mt_block *block = mt_slab_alloc(&records);

	if (block)
		block->is_non_recyclable = false;
	return block;
}

void mt_block_release(struct mt_block *block)
{
	mt_slab_free(&records, block);
}

static MT_COLD struct mt_block *find_locked(struct shard *shard, uint64_t base)
{
	struct mt_block *block;

	mt_lock_lock(&shard->lock);
	block = block_of(mt_pointer_table_find(&shard->table, base));
	mt_lock_unlock(&shard->lock);
	return block;
}

struct mt_block *mt_blocks_find(uint64_t base)
{
	struct shard *shard = shard_of(base);
	struct mt_block *block = block_of(mt_pointer_table_peek(&shard->table, base));

	return mt_likely(block != NULL) ? block : find_locked(shard, base);
}

struct mt_block *mt_blocks_insert(struct mt_block *block)
{
	struct shard *shard = shard_of(mt_block_base(block));
	struct mt_block *stale;

	mt_lock_lock(&shard->lock);
	stale = block_of(mt_pointer_table_insert(&shard->table, &block->node));
	mt_lock_unlock(&shard->lock);
	return stale;
}

bool mt_blocks_remove(struct mt_block *block)
{
	struct shard *shard = shard_of(mt_block_base(block));
	bool was_in;

	mt_lock_lock(&shard->lock);
	was_in = mt_pointer_table_remove(&shard->table, &block->node);
	mt_lock_unlock(&shard->lock);
	return was_in;
}

MT_COLD struct mt_block_walk mt_blocks_walk_start(void)
{
	struct mt_block_walk walk = {NULL, NULL, NULL};

	mt_lock_lock(&records.lock);
	walk.chunk = records.chunks;
	/* The newest chunk is the first, and filled as far as `fresh`. */
	if (walk.chunk) {
		walk.at = walk.chunk->objects;
		walk.end = records.fresh;
	}
	mt_lock_unlock(&records.lock);
	return walk;
}

struct mt_block *mt_blocks_walk_next(struct mt_block_walk *walk)
{
	struct mt_block *block;

	while (walk->at == walk->end) {
		if (!walk->chunk || !walk->chunk->next)
			return NULL;
		walk->chunk = walk->chunk->next;
		walk->at = walk->chunk->objects;
		walk->end = walk->chunk->end;
	}
	block = (struct mt_block *)(void *)walk->at;
	walk->at += sizeof(struct mt_block);
	return block;
}

MT_COLD void mt_blocks_walk(void (*visit)(struct mt_block *block, void *data), void *data)
{
	struct mt_block_walk walk = mt_blocks_walk_start();
	struct mt_block *block;

	while ((block = mt_blocks_walk_next(&walk)))
		visit(block, data);
}

MT_COLD void mt_blocks_forget(void)
{
	memset((void *)shards, 0, sizeof(shards));
	for (unsigned i = 0; i < SHARDS; i++)
		mt_lock_set_rank(&shards[i].lock, MT_RANK_shard);
	mt_slab_forget(&records);
}

void mt_line_append(struct mt_block_line *line, struct mt_block *block)
{
	block->line_next = NULL;
	block->line_prev = line->last;
	if (line->last)
		line->last->line_next = block;
	else
		line->first = block;
	line->last = block;
}

void mt_line_remove(struct mt_block_line *line, struct mt_block *block)
{
	if (block->line_prev)
		block->line_prev->line_next = block->line_next;
	else
		line->first = block->line_next;
	if (block->line_next)
		block->line_next->line_prev = block->line_prev;
	else
		line->last = block->line_prev;
}
