/* tick.c -- what a tick of the reaper costs where there is much to look at: 200 threads (--threads) that each hold a
 * few blocks, and a heap that moves, 256 MiB freed and taken again every 0.4 s, so that ticks stay short and pass the
 * gate to the allocator's own figures. Says "ready", works until its standard input closes. */
#include <poll.h>
#include <pthread.h>

#include "workload.h"

#define BLOCKS      256u
#define BLOCK_BYTES ((size_t)1 << 20)

static pthread_barrier_t born;
static pthread_mutex_t rest = PTHREAD_MUTEX_INITIALIZER; /* held by main for ever: the threads sleep on it */

static void *hold_blocks(void *unused)
{
	void *small = must_alloc(100), *medium = must_alloc(20000);

	(void)unused;
	touch_block(small, 100);
	touch_block(medium, 20000);
	pthread_barrier_wait(&born);
	pthread_mutex_lock(&rest);
	return NULL;
}

static int stdin_is_open(int wait_ms)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&input, 1, wait_ms) == 0;
}

int main(int argc, char **argv)
{
	size_t threads = option_count(argc, argv, "--threads", 200);
	static void *blocks[BLOCKS];
	pthread_t id;

	pthread_barrier_init(&born, NULL, (unsigned)threads + 1);
	pthread_mutex_lock(&rest);
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&id, NULL, hold_blocks, NULL) != 0)
			return 1;
	pthread_barrier_wait(&born);
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	do {
		for (size_t i = 0; i < BLOCKS; i++) {
			blocks[i] = must_alloc(BLOCK_BYTES);
			touch_block(blocks[i], BLOCK_BYTES);
		}
		for (size_t i = 0; i < BLOCKS; i++)
			free(blocks[i]);
	} while (stdin_is_open(400));
	_exit(0);
}
