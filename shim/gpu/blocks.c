#include "gpu/blocks.h"

#include <string.h>

#include "sys/attr.h"
#include "sys/lock.h"
#include "gpu/slab.h"

#define SHARDS 64u
/* of each shard, in .bss; the following segments are mapped */
#define FIRST_BUCKETS 64u
#define SEGMENTS      24u /* 64 << 23 buckets a shard */

struct shard {
	struct mt_lock lock;
	/* Level in the upper half: FIRST_BUCKETS << level buckets have all been split into; in the
	 * lower how many of them are split once more. One word, for who reads it without the lock:
	 * the release that writes it comes after the segment. */
	_Atomic uint64_t shape;
	uint64_t count;
	/* 1, 2, ...: segment k holds buckets from FIRST_BUCKETS << (k - 1) on */
	_Atomic(struct mt_block *) *segments[SEGMENTS];
	_Atomic(struct mt_block *) first[FIRST_BUCKETS];
} __attribute__((aligned(64)));

/* records that a look-up without the lock follows: meanwhile they may move to other chains */
#define LOOK_MAX 64

static struct shard shards[SHARDS];
static struct mt_slab records = MT_SLAB(struct mt_block);

static uint64_t hash(uint64_t base)
{
	/* Blocks lie 512 bytes apart at least; the multiplier is 2^64 over the golden ratio. */
	return (base >> 8) * 0x9e3779b97f4a7c15ull;
}

static struct shard *shard_of(uint64_t key)
{
	return &shards[key >> 58];
}

static uint32_t bucket_of(uint64_t shape, uint64_t key)
{
	uint32_t bits = (uint32_t)(key >> 26);
	uint32_t level = (uint32_t)(shape >> 32);
	uint32_t at = bits & ((FIRST_BUCKETS << level) - 1);

	if (at < (uint32_t)shape)
		at = bits & ((FIRST_BUCKETS << (level + 1)) - 1);
	return at;
}

static uint64_t shape_of(const struct shard *shard)
{
	return atomic_load_explicit(&shard->shape, memory_order_acquire);
}

static struct mt_block *load(_Atomic(struct mt_block *) *link)
{
	return atomic_load_explicit(link, memory_order_acquire);
}

/* release: who follows the link without the lock sees a whole record. */
static void store(_Atomic(struct mt_block *) *link, struct mt_block *block)
{
	atomic_store_explicit(link, block, memory_order_release);
}

static uint64_t base_of(struct mt_block *block)
{
	return atomic_load_explicit(&block->base, memory_order_relaxed);
}

static _Atomic(struct mt_block *) *bucket_at(struct shard *shard, uint32_t at)
{
	uint32_t segment;

	if (at < FIRST_BUCKETS)
		return &shard->first[at];
	segment = 32 - (uint32_t)__builtin_clz(at / FIRST_BUCKETS);
	return &shard->segments[segment][at - (FIRST_BUCKETS << (segment - 1))];
}

static _Atomic(struct mt_block *) *chain_of(struct shard *shard, uint64_t key)
{
	return bucket_at(shard, bucket_of(shape_of(shard), key));
}

/* One bucket more. Where no memory can be had the chains get longer, and that is all. */
static void grow(struct shard *shard)
{
	uint64_t shape = shape_of(shard);
	uint32_t segment = (uint32_t)(shape >> 32) + 1;
	uint32_t half = FIRST_BUCKETS << (segment - 1);
	struct mt_block *block, *next;
	_Atomic(struct mt_block *) *from;

	if (segment >= SEGMENTS)
		return;
	if (!shard->segments[segment])
		shard->segments[segment] = mt_slab_map(half * sizeof(_Atomic(struct mt_block *)));
	if (!shard->segments[segment])
		return;
	from = bucket_at(shard, (uint32_t)shape);
	block = load(from);
	store(from, NULL);
	shape = (uint32_t)shape + 1 == half ? (uint64_t)segment << 32 : shape + 1;
	atomic_store_explicit(&shard->shape, shape, memory_order_release);
	for (; block; block = next) {
		_Atomic(struct mt_block *) *to =
			bucket_at(shard, bucket_of(shape, hash(base_of(block))));

		next = load(&block->chain);
		store(&block->chain, load(to));
		store(to, block);
	}
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

static MT_COLD struct mt_block *find_surely(struct shard *shard, uint64_t key, uint64_t base)
{
	struct mt_block *block;

	mt_lock_lock(&shard->lock);
	block = load(chain_of(shard, key));
	while (block && base_of(block) != base)
		block = load(&block->chain);
	mt_lock_unlock(&shard->lock);
	return block;
}

struct mt_block *mt_blocks_find(uint64_t base)
{
	uint64_t key = hash(base);
	struct shard *shard = shard_of(key);
	struct mt_block *block = load(chain_of(shard, key));

	/* What is found is right whatever happens meanwhile (the caller looks again, under the
	 * context's lock); what is not found may have been on its way from one chain to another. */
	for (int seen = 0; block && seen < LOOK_MAX; seen++) {
		if (mt_likely(base_of(block) == base))
			return block;
		block = load(&block->chain);
	}
	return find_surely(shard, key, base);
}

struct mt_block *mt_blocks_insert(struct mt_block *block)
{
	uint64_t base = base_of(block);
	uint64_t key = hash(base);
	struct shard *shard = shard_of(key);
	struct mt_block *stale;
	_Atomic(struct mt_block *) *link;

	mt_lock_lock(&shard->lock);
	link = chain_of(shard, key);
	store(&block->chain, load(link));
	store(link, block);
	link = &block->chain;
	while ((stale = load(link)) != NULL && base_of(stale) != base)
		link = &stale->chain;
	if (stale)
		store(link, load(&stale->chain));
	else if (++shard->count >
		 (FIRST_BUCKETS << (shape_of(shard) >> 32)) + (uint32_t)shape_of(shard))
		grow(shard);
	mt_lock_unlock(&shard->lock);
	return stale;
}

bool mt_blocks_remove(struct mt_block *block)
{
	uint64_t key = hash(base_of(block));
	struct shard *shard = shard_of(key);
	struct mt_block *at;
	_Atomic(struct mt_block *) *link;

	mt_lock_lock(&shard->lock);
	link = chain_of(shard, key);
	while ((at = load(link)) != NULL && at != block)
		link = &at->chain;
	if (at) {
		store(link, load(&block->chain));
		shard->count--;
	}
	mt_lock_unlock(&shard->lock);
	return at != NULL;
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
