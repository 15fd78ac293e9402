/* filled_holes.c -- of 80 MB of blocks of a page every other one is freed, and purged. Then fills
 * some of the holes, each of which lies between two blocks. Prints what it allocated then, and by
 * how much resident memory grew, in kB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rollup.h"

#define PAGE   4096u
#define COUNT  20000u
#define FILLED 1500u

static char *blocks[COUNT];

static void wait_for_purge(size_t full_kb)
{
	for (int i = 0; i < 100 && (size_t)rollup_kb("Rss:") > full_kb / 10 * 6; i++)
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

int main(void)
{
	size_t before;

	for (size_t i = 0; i < COUNT; i++)
		blocks[i] = memset(malloc(PAGE), 1, PAGE);
	before = (size_t)rollup_kb("Rss:");
	for (size_t i = 0; i < COUNT; i += 2)
		free(blocks[i]);
	wait_for_purge(before);
	before = (size_t)rollup_kb("Rss:");
	for (size_t i = 0; i < FILLED; i++)
		memset(malloc(PAGE), 1, PAGE);
	printf("%zu %zu\n", (size_t)FILLED * PAGE / 1024, (size_t)rollup_kb("Rss:") - before);
	return 0;
}
