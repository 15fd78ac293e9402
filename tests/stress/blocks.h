/* blocks.h -- blocks of every size whose bytes only their maker knows. Threads make and resize
 * them, hand them to others through mailboxes, and check and free what they find there. A page that
 * a purge took too early, or a block given twice, shows as a wrong byte. */
#ifndef STRESS_BLOCKS_H
#define STRESS_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define MAILBOXES 1024
#define STEP      61 /* bytes from one that is written and checked to the next */

struct block {
	uint64_t seed;
	size_t bytes;
	unsigned char content[];
};

/* Set by the program, before the first block. */
static struct {
	_Atomic uint64_t *blocks, *wrong;
	size_t largest_bytes;
} blocks;

static _Atomic(struct block *) mailbox[MAILBOXES];
static atomic_bool over;

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Small ones mostly; now and then a page, a slab, or one that the allocator maps by itself. */
static size_t some_size(uint64_t *state)
{
	uint64_t r = next(state);

	switch (r % 64) {
	case 0:
		return (r >> 8) % blocks.largest_bytes;
	case 1:
	case 2:
	case 3:
		return (r >> 8) % 200000;
	default:
		return (r >> 8) % 3000;
	}
}

static unsigned char byte_at(uint64_t seed, size_t at)
{
	return (unsigned char)(seed + at * 131);
}

static void fill(struct block *block)
{
	for (size_t at = 0; at < block->bytes; at += STEP)
		block->content[at] = byte_at(block->seed, at);
}

static void check(const struct block *block)
{
	for (size_t at = 0; at < block->bytes; at += STEP)
		if (block->content[at] != byte_at(block->seed, at)) {
			atomic_fetch_add(blocks.wrong, 1);
			return;
		}
}

static struct block *zeroed(size_t bytes)
{
	struct block *block = calloc(1, sizeof(*block) + bytes);

	for (size_t at = 0; block && at < bytes; at += STEP)
		if (block->content[at])
			atomic_fetch_add(blocks.wrong, 1);
	return block;
}

static struct block *make(uint64_t *state)
{
	size_t bytes = some_size(state);
	struct block *block = NULL;
	uint64_t kind = next(state) % 4;

	if (kind == 0)
		block = zeroed(bytes);
	else if (kind == 1)
		block = aligned_alloc((size_t)16 << next(state) % 9, sizeof(*block) + bytes);
	else
		block = malloc(sizeof(*block) + bytes);
	if (!block)
		abort();
	block->seed = next(state);
	block->bytes = bytes;
	fill(block);
	atomic_fetch_add_explicit(blocks.blocks, 1, memory_order_relaxed);
	return block;
}

static struct block *resize(struct block *block, uint64_t *state)
{
	size_t before = block->bytes, bytes = some_size(state);
	struct block *moved = realloc(block, sizeof(*block) + bytes);

	if (!moved)
		abort();
	moved->bytes = bytes < before ? bytes : before;
	check(moved);
	moved->bytes = bytes;
	fill(moved);
	return moved;
}

static void churn(uint64_t *state, unsigned count)
{
	for (unsigned i = 0; i < count && !atomic_load(&over); i++) {
		struct block *block = make(state);

		if (next(state) % 8 == 0)
			block = resize(block, state);
		block = atomic_exchange(&mailbox[next(state) % MAILBOXES], block);
		if (block) {
			check(block);
			free(block);
		}
	}
}

/* Checks and frees all blocks in the mailboxes: memory for a purge. */
static void empty_mailboxes(void)
{
	for (unsigned i = 0; i < MAILBOXES; i++) {
		struct block *block = atomic_exchange(&mailbox[i], NULL);

		if (block)
			check(block);
		free(block);
	}
}

#endif
