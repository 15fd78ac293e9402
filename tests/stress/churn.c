/* churn.c SECONDS THREADS -- blocks of every size come, are filled with what only their owner
 * knows, are resized, go to other threads, are checked there and freed; threads die while their
 * blocks live (so that others free them). A page that a purge took too early, or a block given
 * twice, shows as a wrong byte. Prints "N blocks, 0 wrong". */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAILBOXES 1024

struct block {
	uint64_t seed;
	size_t bytes;
	unsigned char content[];
};

static _Atomic(struct block *) mailbox[MAILBOXES];
static atomic_ulong blocks_count, wrong_count;
static atomic_bool over;

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Small ones mostly; now and then a page, a slab, or something that the allocator maps by itself.
 */
static size_t some_size(uint64_t *state)
{
	uint64_t r = next(state);

	switch (r % 64) {
	case 0:
		return (r >> 8) % (4 << 20);
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

static struct block *make(uint64_t *state)
{
	size_t bytes = some_size(state);
	struct block *block = NULL;

	switch (next(state) % 4) {
	case 0:
		block = calloc(1, sizeof(*block) + bytes);
		for (size_t at = 0; block && at < bytes; at += 61)
			if (block->content[at])
				atomic_fetch_add(&wrong_count, 1);
		break;
	case 1:
		if (posix_memalign((void **)&block, (size_t)16 << next(state) % 9,
				   sizeof(*block) + bytes) != 0)
			block = NULL;
		break;
	default:
		block = malloc(sizeof(*block) + bytes);
	}
	if (!block)
		return NULL;
	block->seed = next(state);
	block->bytes = bytes;
	for (size_t at = 0; at < bytes; at += 61)
		block->content[at] = byte_at(block->seed, at);
	atomic_fetch_add(&blocks_count, 1);
	return block;
}

static void check(const struct block *block)
{
	for (size_t at = 0; at < block->bytes; at += 61) {
		if (block->content[at] != byte_at(block->seed, at)) {
			atomic_fetch_add(&wrong_count, 1);
			return;
		}
	}
}

static struct block *resize(struct block *block, uint64_t *state)
{
	size_t before = block->bytes, bytes = some_size(state);
	struct block *moved = realloc(block, sizeof(*block) + bytes);

	if (!moved)
		return block;
	moved->bytes = bytes < before ? bytes : before;
	check(moved);
	moved->bytes = bytes;
	for (size_t at = 0; at < bytes; at += 61)
		moved->content[at] = byte_at(moved->seed, at);
	return moved;
}

/* A short life: about ten thousand blocks, the last of which others will free. */
static void *live(void *argument)
{
	uint64_t state = (uint64_t)(uintptr_t)argument * 0x9e3779b97f4a7c15ull + 1;

	for (unsigned i = 0; i < 10000 && !atomic_load(&over); i++) {
		struct block *block = make(&state);
		if (block && next(&state) % 8 == 0)
			block = resize(block, &state);
		block = atomic_exchange(&mailbox[next(&state) % MAILBOXES], block);
		if (block) {
			check(block);
			free(block);
		}
	}
	return NULL;
}

/* Keeps one slot of threads busy: a new one for each that dies. */
static void *keep_alive(void *argument)
{
	uintptr_t number = (uintptr_t)argument;
	pthread_t thread;

	for (uintptr_t init = 1; !atomic_load(&over); init++) {
		if (pthread_create(&thread, NULL, live, (void *)(number * 100000 + init)) == 0)
			pthread_join(thread, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? atol(argv[1]) : 5, threads = argc > 2 ? atol(argv[2]) : 4;
	struct timespec pause = {0, 700000000};
	struct timespec start, now;
	pthread_t workers[64];

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (long i = 0; i < threads && i < 64; i++)
		pthread_create(&workers[i], NULL, keep_alive, (void *)(uintptr_t)(i + 1));
	do {
		nanosleep(&pause, NULL);
		/* All that lies about goes at once: something to purge. */
		for (unsigned i = 0; i < MAILBOXES; i++) {
			struct block *block = atomic_exchange(&mailbox[i], NULL);
			if (block)
				check(block);
			free(block);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec < seconds);
	atomic_store(&over, true);
	for (long i = 0; i < threads && i < 64; i++)
		pthread_join(workers[i], NULL);
	printf("%lu blocks, %lu wrong\n", atomic_load(&blocks_count), atomic_load(&wrong_count));
	return atomic_load(&wrong_count) != 0;
}
