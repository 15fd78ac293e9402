/* held_capacity.c -- holds 40 blocks of 1 MB that it does not use, and then takes, half fills and
 * frees one block of that size 2,000 times. Prints the page faults of that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BYTES  ((size_t)1 << 20)
#define FILLED 64
#define HELD   40
#define ROUNDS 2000

static char *blocks[FILLED];

static void *take(size_t used_bytes)
{
	char *block = malloc(BYTES);

	if (!block)
		abort();
	memset(block, 1, used_bytes);
	return block;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

int main(void)
{
	long before;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < FILLED; i++)
			blocks[i] = take(BYTES);
		for (int i = 0; i < FILLED; i++)
			free(blocks[i]);
	}
	for (int i = 0; i < HELD; i++)
		blocks[i] = take(0);
	before = faults();
	for (int i = 0; i < ROUNDS; i++)
		free(take(BYTES / 2));
	printf("%ld\n", faults() - before);
	for (int i = 0; i < HELD; i++)
		free(blocks[i]);
	return 0;
}
