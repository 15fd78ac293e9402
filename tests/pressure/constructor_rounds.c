/* constructor_rounds.c -- its constructor, which the loader runs under its lock, fills 200 MB in
 * small blocks three times, waits for a second, frees them, and waits up to 12 s until they are
 * returned. Says "well" where they were, each time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 200000u
#define BYTES 1000u

static char *blocks[COUNT];

static long resident_mb(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		exit(2);
	fclose(file);
	return pages * 4 / 1024;
}

__attribute__((constructor)) static void work(void)
{
	long mb = 0;

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT; i++) {
			blocks[i] = malloc(BYTES);
			memset(blocks[i], 1, BYTES);
		}
		sleep(1);
		for (size_t i = 0; i < COUNT; i++)
			free(blocks[i]);
		for (int i = 0; i < 120 && (mb = resident_mb()) > 60; i++)
			usleep(100000);
		if (mb > 60) {
			printf("%ld MB in round %d\n", mb, round);
			return;
		}
	}
	puts("well");
}
