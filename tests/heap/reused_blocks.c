/* reused_blocks.c ROUNDS -- fills 130 MB in blocks of 100 kB and frees them, again and again.
 * Prints how many page faults that took. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BLOCKS 1300
#define BYTES  100000

int main(int argc, char **argv)
{
	static void *blocks[BLOCKS];
	struct rusage usage;

	for (int round = argc > 1 ? atoi(argv[1]) : 1; round > 0; round--) {
		for (int i = 0; i < BLOCKS; i++) {
			blocks[i] = malloc(BYTES);
			if (!blocks[i])
				return 1;
			memset(blocks[i], round, BYTES);
		}
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld\n", usage.ru_minflt);
	return 0;
}
