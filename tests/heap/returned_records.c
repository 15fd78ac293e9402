/* returned_records.c SECONDS -- three threads fill and free tens of MB in blocks of 1 to 4 kB, of
 * which each keeps one in 50 for a while, and pause, while the main thread forks children that
 * allocate, too. Returns how many blocks, or children, were not as they should be. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT 800

static _Atomic bool is_over;
static _Atomic int wrong;

struct block {
	unsigned char *at;
	size_t bytes;
	unsigned char mark;
};

static void make(struct block *block, uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	block->bytes = 1000 + (*state >> 8) % 3000;
	block->mark = (unsigned char)(*state >> 20);
	block->at = malloc(block->bytes);
	if (block->at)
		memset(block->at, block->mark, block->bytes);
	else
		wrong++;
}

static void drop(struct block *block)
{
	for (size_t i = 0; block->at && i < block->bytes; i += 97)
		if (block->at[i] != block->mark) {
			wrong++;
			break;
		}
	free(block->at);
	block->at = NULL;
}

static void fill(size_t count, struct block *kept, uint32_t *state)
{
	struct block *blocks = calloc(count, sizeof(*blocks));

	for (size_t i = 0; i < count; i++)
		make(&blocks[i], state);
	for (size_t i = 0; i < count; i++) {
		if (kept && i % 50 == 0) {
			drop(&kept[i / 50 % KEPT]);
			kept[i / 50 % KEPT] = blocks[i];
		} else {
			drop(&blocks[i]);
		}
	}
	free(blocks);
}

static void *run(void *number)
{
	struct block *kept = calloc(KEPT, sizeof(*kept));
	uint32_t state = (uint32_t)(uintptr_t)number;

	while (!is_over) {
		fill(10000 + (state >> 8) % 20000, kept, &state);
		usleep(600000 + (state >> 8) % 800000);
	}
	for (size_t i = 0; i < KEPT; i++)
		drop(&kept[i]);
	free(kept);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[3];

	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1) * 50; i++) {
		pid_t child = fork();
		int status = 1;

		if (child == 0) {
			uint32_t state = (uint32_t)i;

			alarm(20);
			fill(i % 25 ? 300 : 10000, NULL, &state);
			_exit(wrong != 0);
		}
		wrong += child < 0 || waitpid(child, &status, 0) != child || status != 0;
		usleep(20000);
	}
	is_over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return wrong > 100 ? 100 : wrong;
}
