/* hard_atfork.c -- a library that a program is linked with: its handlers for fork, registered
 * before main, use the heap. The constructor runs before the shim's, so handlers and allocator meet
 * in the most awkward order. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int hard_atfork_used(void);

static unsigned used_count;

/* Small sizes of many classes and a large one: bins, extents and mappings are all asked. */
static void use_heap(void)
{
	char *blocks[300];

	for (unsigned i = 0; i < 300; i++) {
		blocks[i] = malloc(16 + i * 113);
		if (!blocks[i])
			abort();
		memset(blocks[i], (int)i, 16);
	}
	for (unsigned i = 0; i < 300; i++)
		free(blocks[i]);
	blocks[0] = malloc(4 << 20);
	if (!blocks[0])
		abort();
	memset(blocks[0], 1, 4 << 20);
	free(blocks[0]);
	used_count++;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(use_heap, use_heap, use_heap);
}

int hard_atfork_used(void)
{
	return (int)used_count;
}
