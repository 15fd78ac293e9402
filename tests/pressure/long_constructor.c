/* long_constructor.c -- its constructor, in which the loader is locked, takes 200 MB in small
 * blocks, frees them, waits, and maps 160 MB: under 300 MB there is room for either. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT 200000u
#define BYTES 1000u

static char *blocks[COUNT];

__attribute__((constructor)) static void work(void)
{
	char *mapped;

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < COUNT; i++) {
			blocks[i] = malloc(BYTES);
			memset(blocks[i], 1, BYTES);
			if (i % 20000 == 0)
				usleep(20000);
		}
		for (size_t i = 0; i < COUNT; i++)
			free(blocks[i]);
		usleep(1500000);
	}
	mapped = mmap(NULL, 160u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(mapped, 1, 160u << 20);
	puts("well");
}
