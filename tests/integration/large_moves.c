/* large_moves.c -- blocks of 4 MB and more grow by steps that no block has room for in place, and
 * are freed and made again, in some threads; every byte that was written must be there afterwards.
 *
 *   large_moves THREADS GROWS     prints the number of mappings after a half and at the end */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT    16
#define MB       (1024ul * 1024)
#define MOST     (40 * MB)
#define STEP     (64 * 1024ul) /* between two bytes that are written */
#define CPU_MOST 16

struct worker {
	pthread_t thread;
	unsigned int seed;
	long grows;
	unsigned char *blocks[COUNT];
	size_t bytes[COUNT];
};

static int count_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int lines = 0;
	int c;

	while (maps && (c = getc(maps)) != EOF)
		lines += c == '\n';
	if (maps)
		fclose(maps);
	return lines;
}

static unsigned char value_at(int number, size_t at)
{
	return (unsigned char)(number * 31 + at / STEP + 1);
}

static void grow(struct worker *worker, int i)
{
	size_t old = worker->bytes[i];
	size_t bytes = old + (size_t)(rand_r(&worker->seed) % 2048 + 1) * 4096;
	unsigned char *block;

	if (!old)
		bytes += 4 * MB;
	block = realloc(worker->blocks[i], bytes);
	if (!block)
		exit(3);
	for (size_t at = 0; at < bytes; at += STEP)
		if (at >= old)
			block[at] = value_at(i, at);
		else if (block[at] != value_at(i, at))
			exit(4);
	worker->blocks[i] = block;
	worker->bytes[i] = bytes;
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	for (long n = 0; n < worker->grows; n++) {
		int i = rand_r(&worker->seed) % COUNT;

		if (worker->bytes[i] > MOST || rand_r(&worker->seed) % 8 == 0) {
			free(worker->blocks[i]);
			worker->blocks[i] = NULL;
			worker->bytes[i] = 0;
		}
		grow(worker, i);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[CPU_MOST];
	int count = argc > 2 ? atoi(argv[1]) : 0;

	if (count < 1 || count > CPU_MOST)
		return 2;
	for (int half = 0; half < 2; half++) {
		for (int i = 0; i < count; i++) {
			workers[i].seed += (unsigned int)i + 1;
			workers[i].grows = atol(argv[2]) / 2;
			if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
				return 3;
		}
		for (int i = 0; i < count; i++)
			pthread_join(workers[i].thread, NULL);
		printf("%d ", count_mappings());
	}
	puts("mappings");
	return 0;
}
