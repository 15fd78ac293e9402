/* grown_blocks.c -- grows 20 blocks to 24 MB by 24 reallocs each, in turns. Prints how many
 * mappings the process has more than before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS     20u
#define STEPS      24u
#define STEP_BYTES ((size_t)1 << 20)

static unsigned int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	unsigned int count = 0;
	int letter;

	while (file && (letter = fgetc(file)) != EOF)
		count += letter == '\n';
	if (file)
		fclose(file);
	return count;
}

int main(void)
{
	static unsigned char *blocks[BLOCKS];
	unsigned int before = mappings();

	for (size_t step = 0; step < STEPS; step++)
		for (unsigned int i = 0; i < BLOCKS; i++) {
			blocks[i] = realloc(blocks[i], (step + 1) * STEP_BYTES);
			memset(blocks[i] + step * STEP_BYTES, (int)(i + step), STEP_BYTES);
		}
	printf("%u\n", mappings() - before);
	for (unsigned int i = 0; i < BLOCKS; i++)
		for (size_t step = 0; step < STEPS; step++)
			for (size_t at = 0; at < STEP_BYTES; at += 500)
				if (blocks[i][step * STEP_BYTES + at] != (unsigned char)(i + step))
					return 1;
	return 0;
}
