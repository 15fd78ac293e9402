/* sites_leak.c -- a leak in leak_here among decoys that allocate and free more: "go" on stdin does
 * the work once and says "done BYTES"; "end" ends. What early_block allocates is there before
 * anybody could switch a profiler on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAK_BLOCKS 100000
#define LEAK_BYTES  400u

static void *volatile kept;

static __attribute__((noinline)) void early_block(size_t bytes)
{
	char *block = malloc(bytes);

	memset(block, 1, bytes);
	kept = block;
}

static __attribute__((noinline)) void leak_here(size_t bytes)
{
	char *block = malloc(bytes);

	block[0] = 1;
	kept = block;
}

/* Four times what leaks, and all of it freed again. */
static __attribute__((noinline)) void decoy_churns(void)
{
	for (int i = 0; i < LEAK_BLOCKS / 10; i++) {
		char *block = malloc(16000);

		block[0] = 1;
		free(block);
	}
}

static __attribute__((noinline)) void decoy_holds(void)
{
	for (int i = 0; i < 100; i++) {
		kept = calloc(1, 40000);
		kept = realloc(kept, 80000);
	}
}

int main(void)
{
	char line[32];

	early_block(64u << 20);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strncmp(line, "go", 2) == 0) {
		decoy_holds();
		for (int i = 0; i < LEAK_BLOCKS; i++)
			leak_here(LEAK_BYTES);
		decoy_churns();
		printf("done %u\n", LEAK_BLOCKS * LEAK_BYTES);
		fflush(stdout);
	}
	return 0;
}
