/* idle.c -- a process that has worked and now rests: 100 MiB in blocks of 10 kB, half of it freed;
 * says "ready" and sleeps until its standard input closes. bench/lib/outside.py watches it from
 * outside. */
#include "workload.h"

#define BLOCKS      10486u
#define BLOCK_BYTES 10000u

static void *blocks[BLOCKS];

int main(void)
{
	char byte;

	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = must_alloc(BLOCK_BYTES);
		touch_block(blocks[i], BLOCK_BYTES);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		if (i >= BLOCKS / 2)
			free(blocks[i]);
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}
