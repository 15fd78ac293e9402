/* turns_over.c -- wakes the process up by one large block, while another thread makes, grows and
 * frees blocks, so that the heap of libc grows. Returns how many were not as written. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 400
#define BYTES 30000u

static _Atomic int awake;
static int wrong;

static void *turn_over(void *unused)
{
	char *kept[COUNT];

	for (int i = 0; i < COUNT; i++) {
		char *block = malloc(2 * BYTES);

		kept[i] = memset(malloc(BYTES), i, BYTES);
		wrong += malloc_usable_size(block) < 2 * BYTES;
		block = realloc(memset(block, 1, 2 * BYTES), 3 * BYTES);
		wrong += block[0] != 1 || block[2 * BYTES - 1] != 1;
		free(block);
	}
	while (!awake)
		;
	for (int i = 0; i < COUNT; i++) {
		wrong += kept[i][0] != (char)i || kept[i][BYTES - 1] != (char)i;
		free(kept[i]);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, turn_over, NULL) != 0)
		return 255;
	free(malloc(2u << 20));
	awake = 1;
	pthread_join(thread, NULL);
	return wrong;
}
