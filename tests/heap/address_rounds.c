/* address_rounds.c -- takes 50 MB in blocks of 200 kB, of which it writes a part, frees them and
 * calls malloc_trim, again and again, with 30 MB live. Prints how many mappings it has after 30
 * rounds and after 90. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 250
#define BYTES  204000

static void round_of_blocks(void)
{
	char *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BYTES);
		if (!blocks[i])
			abort();
		for (int at = 0; at < BYTES; at += 16 * 4096)
			blocks[i][at] = 1;
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	malloc_trim(0);
}

static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	int lines = 0;

	for (int c; file && (c = getc(file)) != EOF;)
		lines += c == '\n';
	if (file)
		fclose(file);
	return lines;
}

int main(void)
{
	char *live = calloc(1, 30 << 20);

	for (int i = 1; i <= 90; i++) {
		round_of_blocks();
		if (i == 30 || i == 90)
			printf("%d\n", mappings());
	}
	free(live);
	return 0;
}
