/* pressure_slots.c -- a program that fits its limit under glibc, with little to spare. It holds
 * HELD MB outside the heap and 32 blocks of 1 to 2 MB, of which it replaces four every 5 ms, by
 * blocks of other sizes.
 *
 *   pressure_slots HELD SECONDS      prints the number of steps and how long the slowest took, in
 *     microseconds */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MB       (1024ul * 1024)
#define SLOTS    32
#define REPLACED 4

static uint64_t state = 88172645463325252ull;

/* xorshift64: the same blocks in each run. Source: G. Marsaglia, Xorshift RNGs, 2003. */
static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static char *make(void)
{
	size_t bytes = MB + draw() % MB;
	char *block = malloc(bytes);

	if (!block)
		exit(3);
	memset(block, 1, bytes);
	return block;
}

int main(int argc, char **argv)
{
	const struct timespec nap = {0, 5000000};
	size_t held = argc == 3 ? strtoul(argv[1], NULL, 10) * MB : 0;
	char *slots[SLOTS];
	unsigned long count = 0;
	uint64_t longest = 0, end;

	void *outside =
		mmap(NULL, held, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!held || outside == MAP_FAILED)
		return 2;
	memset(outside, 1, held);
	for (int i = 0; i < SLOTS; i++)
		slots[i] = make();
	end = now_ns() + strtoul(argv[2], NULL, 10) * 1000000000;
	for (; now_ns() < end; count++) {
		uint64_t began = now_ns(), took;

		for (int i = 0; i < REPLACED; i++) {
			char **slot = &slots[draw() % SLOTS];

			free(*slot);
			*slot = make();
		}
		took = now_ns() - began;
		longest = took > longest ? took : longest;
		nanosleep(&nap, NULL);
	}
	printf("%lu %lu\n", count, (unsigned long)(longest / 1000));
	return 0;
}
