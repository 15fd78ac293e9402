/* few_blocks.c COUNT [BYTES] -- each of COUNT threads keeps ten blocks of 16 to 1,000 bytes, or
 * three of BYTES, and waits. Prints the anonymous memory of the process in kB. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rollup.h"

static pthread_barrier_t filled;
static size_t blocks_each = 10, bytes_each; /* 0: various */

static void *fill_and_wait(void *seed)
{
	unsigned random = (unsigned)(size_t)seed * 2654435761u;
	char *blocks[10];

	for (size_t i = 0; i < blocks_each; i++) {
		random = random * 1103515245 + 12345;
		size_t bytes = bytes_each ? bytes_each : 16 + (random >> 8) % 985;

		blocks[i] = memset(malloc(bytes), 1, bytes);
	}
	pthread_barrier_wait(&filled);
	pause();
	return blocks[0];
}

int main(int argc, char **argv)
{
	unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	pthread_attr_t small;
	pthread_t thread;

	if (argc > 2) {
		blocks_each = 3;
		bytes_each = (size_t)atoi(argv[2]);
	}
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	pthread_barrier_init(&filled, NULL, count + 1);
	for (size_t i = 0; i < count; i++)
		if (pthread_create(&thread, &small, fill_and_wait, (void *)i) != 0)
			return 1;
	pthread_barrier_wait(&filled);
	printf("%ld\n", rollup_kb("Anonymous:"));
	fflush(stdout);
	_exit(0);
}
