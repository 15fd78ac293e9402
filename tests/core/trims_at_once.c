/* trims_at_once.c -- fills and frees 32 MB, and two threads return them at the same time by
 * mt_trim, eight times. Prints three sums in MB: by how much resident memory has fallen, what
 * mt_trim has returned, and the growth of purged_bytes. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mtshim.h"

#define BLOCK  4000u
#define BLOCKS 8192u
#define ROUNDS 8
#define MIB    (1 << 20)

static pthread_barrier_t start;
static int64_t (*trim)(int);
static int (*figures)(struct mt_stats *);

static void *trim_once(void *out)
{
	pthread_barrier_wait(&start);
	*(int64_t *)out = trim(0);
	return NULL;
}

static void fill_and_free(void)
{
	static void *blocks[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = memset(malloc(BLOCK), 1, BLOCK);
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

static struct mt_stats now(void)
{
	struct mt_stats stats = {.size_bytes = sizeof(stats)};

	if (figures(&stats) != 0)
		abort();
	return stats;
}

int main(void)
{
	int64_t fell = 0, returned = 0, got[2];
	uint64_t purged;
	pthread_t threads[2];

	*(void **)(void *)&trim = dlsym(RTLD_DEFAULT, "mt_trim");
	*(void **)(void *)&figures = dlsym(RTLD_DEFAULT, "mt_stats");
	if (!trim || !figures)
		return 2;
	fill_and_free();
	(void)trim(0);
	purged = now().purged_bytes;
	for (int round = 0; round < ROUNDS; round++) {
		fill_and_free();
		fell += (int64_t)now().rss_anon_bytes;
		pthread_barrier_init(&start, NULL, 2);
		for (int i = 0; i < 2; i++)
			if (pthread_create(&threads[i], NULL, trim_once, &got[i]) != 0)
				return 3;
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		fell -= (int64_t)now().rss_anon_bytes;
		returned += got[0] + got[1];
	}
	printf("%ld %ld %ld\n", (long)(fell / MIB), (long)(returned / MIB),
	       (long)((now().purged_bytes - purged) / MIB));
	return 0;
}
