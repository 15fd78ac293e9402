/* large_mappings.c -- 12,000 blocks of 4 to 8 MB, two bytes of each used, come and go in random
 * order. Prints how many mappings the process has then. */
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 12000u
#define TURNS  40000u

int main(void)
{
	static char *blocks[BLOCKS];
	FILE *maps;
	int count = 0, byte;

	srand(1);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		unsigned at = (unsigned)rand() % BLOCKS;
		size_t bytes = ((size_t)4 << 20) + (size_t)rand() % ((size_t)4 << 20);

		if (blocks[at]) {
			if (blocks[at][0] != (char)at)
				return 1;
			free(blocks[at]);
			blocks[at] = NULL;
		} else if (!(blocks[at] = malloc(bytes))) {
			return 2;
		} else {
			blocks[at][0] = (char)at;
			blocks[at][bytes / 2] = 1;
		}
	}
	maps = fopen("/proc/self/maps", "r");
	while (maps && (byte = fgetc(maps)) != EOF)
		count += byte == '\n';
	printf("%d\n", count);
	return 0;
}
