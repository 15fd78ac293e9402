/* uneven_limit.c KB -- blocks of 16 kB under a far limit of address space that is no round number:
 * each has words of its own at both ends, which must stay. Returns 1 if one has changed, or begins
 * at no multiple of LINE. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define COUNT  3000
#define ROUNDS 20
#define WORDS  16u
/* where the embedded jemalloc begins such blocks; one that is cut off inside a page does not */
#define LINE 64

static uint32_t *blocks[COUNT];
static size_t sizes[COUNT];

static void fill(size_t bytes)
{
	for (uint32_t i = 0; i < COUNT; i++) {
		if (blocks[i])
			continue;
		blocks[i] = malloc(sizes[i] = bytes);
		if (!blocks[i] || (uintptr_t)blocks[i] % LINE)
			exit(1);
		for (size_t k = 0; k < WORDS; k++)
			blocks[i][k] = blocks[i][bytes / 4 - 1 - k] = i * 7919u + (uint32_t)bytes;
	}
}

static void check(void)
{
	for (uint32_t i = 0; i < COUNT; i++)
		for (size_t k = 0; k < WORDS; k++)
			if (blocks[i][k] != i * 7919u + (uint32_t)sizes[i] ||
			    blocks[i][sizes[i] / 4 - 1 - k] != blocks[i][k]) {
				printf("block %u has changed\n", i);
				exit(1);
			}
}

static void drop(uint32_t count, useconds_t rest_us)
{
	for (uint32_t i = 0; i < count; i++) {
		free(blocks[i]);
		blocks[i] = NULL;
	}
	usleep(rest_us);
}

int main(int argc, char **argv)
{
	rlim_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) << 10 : RLIM_INFINITY;
	const struct rlimit limit = {bytes, bytes};

	if (setrlimit(RLIMIT_AS, &limit) != 0)
		return 2;
	for (int round = 0; round < ROUNDS; round++) {
		fill(16384);
		check();
		drop(COUNT / 2, 25000);
		for (int again = 0; again < 4; again++) {
			fill(16000);
			check();
			drop(COUNT, 5000);
		}
	}
	puts("ok");
	return 0;
}
