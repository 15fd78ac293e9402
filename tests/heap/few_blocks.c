/* few_blocks.c COUNT -- each of COUNT threads keeps ten blocks of 16 to 1,000 bytes and waits.
 * Prints the anonymous memory of the process in kB. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 10

static pthread_barrier_t filled;

static void *fill_and_wait(void *seed)
{
	unsigned random = (unsigned)(size_t)seed * 2654435761u;
	char *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		random = random * 1103515245 + 12345;
		size_t bytes = 16 + (random >> 8) % 985;

		blocks[i] = memset(malloc(bytes), 1, bytes);
	}
	pthread_barrier_wait(&filled);
	pause();
	return blocks[0];
}

static void print_anonymous(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[200];
	long kb;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Anonymous: %ld", &kb) == 1)
			printf("%ld\n", kb);
}

int main(int argc, char **argv)
{
	unsigned count = argc == 2 ? (unsigned)atoi(argv[1]) : 1;
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	pthread_barrier_init(&filled, NULL, count + 1);
	for (size_t i = 0; i < count; i++)
		if (pthread_create(&thread, &small, fill_and_wait, (void *)i) != 0)
			return 1;
	pthread_barrier_wait(&filled);
	print_anonymous();
	fflush(stdout);
	_exit(0);
}
