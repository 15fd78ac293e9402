/* tick.c -- a process in which a tick of the worker finds nothing to do, in each shape that the
 * promise names (--shape):
 *   idle       a small process at rest
 *   resting    4 GiB of live memory (--live-mib), at rest
 *   still      the same memory, read and written, and a heap that does not move
 *   churn      the same, and small blocks that come and go, gigabytes a second, within the
 *     allocator's caches
 *   fragments  the same, and 500 MB of pages that a few small blocks each keep from being free
 *   moving     a heap that moves: 256 MiB freed and taken again every 0.4 s
 * In all of them 200 threads (--threads) hold a few blocks each, and as many arenas as asked for
 * (--arenas) have been used. Memory is touched once. Says "ready", works until its standard input
 * closes. */
#include <poll.h>
#include <pthread.h>

#include "workload.h"

#define BLOCK_BYTES   ((size_t)1 << 20)
#define MOVING_BLOCKS 256u
#define CHURN_BLOCKS  64u
#define CHURN_PAIRS   20000u /* some 20 MB, in a millisecond or less */
/* of 1 KiB: 700 MiB, of which every fourth block stays, one on each page */
#define SMALL_BLOCKS (700u << 10)
#define SMALL_BYTES  1024u
/* of the live memory, in each turn of 10 ms */
#define READ_BYTES ((size_t)8 << 20)

static pthread_barrier_t born;
/* held by main for ever: the threads sleep on it */
static pthread_mutex_t rest = PTHREAD_MUTEX_INITIALIZER;
static uint64_t random_state = 88172645463325252ull;
static char **live;
static size_t live_count;

static void *hold_blocks(void *stays)
{
	void *small = must_alloc(100), *medium = must_alloc(20000);

	touch_block(small, 100);
	touch_block(medium, 20000);
	pthread_barrier_wait(&born); /* none ends before all have an arena */
	if (stays)
		pthread_mutex_lock(&rest);
	free(small);
	free(medium);
	return NULL;
}

/* Each new thread takes an arena that nobody uses, as long as there is one. */
static int start_threads(size_t threads, size_t arenas)
{
	size_t most = threads > arenas ? threads : arenas;
	pthread_t *passing = must_alloc(most * sizeof *passing);
	size_t count = 0;
	pthread_t id;

	pthread_barrier_init(&born, NULL, (unsigned)most + 1);
	pthread_mutex_lock(&rest);
	for (size_t i = 0; i < most; i++) {
		if (pthread_create(&id, NULL, hold_blocks, i < threads ? &rest : NULL) != 0)
			return 0;
		if (i >= threads)
			passing[count++] = id;
	}
	pthread_barrier_wait(&born);
	while (count > 0)
		pthread_join(passing[--count], NULL);
	free(passing);
	return 1;
}

static void make_live(size_t mib)
{
	live = must_alloc((mib + 1) * sizeof *live);
	for (live_count = 0; live_count < mib; live_count++) {
		live[live_count] = must_alloc(BLOCK_BYTES);
		touch_block(live[live_count], BLOCK_BYTES);
	}
}

static void make_fragments(void)
{
	char **blocks = must_alloc(SMALL_BLOCKS * sizeof *blocks);

	for (size_t i = 0; i < SMALL_BLOCKS; i++) {
		blocks[i] = must_alloc(SMALL_BYTES);
		touch_block(blocks[i], SMALL_BYTES);
	}
	for (size_t i = 0; i < SMALL_BLOCKS; i++)
		if (i % 4)
			free(blocks[i]);
}

/* ---- what is done every few milliseconds ---- */

static void rest_a_turn(void)
{
}

/* The program uses its memory: what the worker finds in the caches is not its own. */
static void use_live(void)
{
	static size_t at;

	for (size_t i = 0; live_count && i < READ_BYTES / BLOCK_BYTES; i++) {
		touch_block(live[at], BLOCK_BYTES);
		at = (at + 1) % live_count;
	}
}

static void churn(void)
{
	static void *blocks[CHURN_BLOCKS];

	use_live();
	for (size_t i = 0; i < CHURN_PAIRS; i++) {
		void **slot = &blocks[next_random(&random_state) >> 58];

		free(*slot);
		*slot = must_alloc(random_between(&random_state, 16, 2048));
		keep_block(*slot);
	}
}

static void move(void)
{
	static void *blocks[MOVING_BLOCKS];

	for (size_t i = 0; i < MOVING_BLOCKS; i++) {
		blocks[i] = must_alloc(BLOCK_BYTES);
		touch_block(blocks[i], BLOCK_BYTES);
	}
	for (size_t i = 0; i < MOVING_BLOCKS; i++)
		free(blocks[i]);
}

static const struct shape {
	const char *name;
	void (*turn)(void);
	int pause_ms;
	int is_large, is_fragmented;
} shapes[] = {
	{"idle", rest_a_turn, -1, 0, 0}, {"resting", rest_a_turn, -1, 1, 0},
	{"still", use_live, 10, 1, 0},   {"churn", churn, 10, 1, 0},
	{"fragments", churn, 10, 1, 1},  {"moving", move, 400, 0, 0},
};

static int stdin_is_open(int wait_ms)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, wait_ms) == 0;
}

int main(int argc, char **argv)
{
	const char *name = option_text(argc, argv, "--shape", "moving");
	const struct shape *shape = shapes;

	while (strcmp(shape->name, name) != 0)
		if (++shape == shapes + sizeof shapes / sizeof *shapes)
			return 2;
	if (!start_threads(option_count(argc, argv, "--threads", 200),
			   option_count(argc, argv, "--arenas", 8)))
		return 1;
	make_live(shape->is_large ? option_count(argc, argv, "--live-mib", 4096) : 32);
	if (shape->is_fragmented)
		make_fragments();
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	do
		shape->turn();
	while (stdin_is_open(shape->pause_ms));
	_exit(0);
}
