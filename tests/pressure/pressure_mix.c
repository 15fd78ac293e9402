/* pressure_mix.c -- a program that turns memory over near its limit and does not grow. It holds
 * HELD MB outside the heap, and LIVE MB of blocks of mixed sizes, of which it replaces one after
 * the other.
 *
 *   pressure_mix HELD LIVE SECONDS      prints how many blocks it has replaced, its CPU time in us,
 *     and its page faults */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define MB          (1024ul * 1024)
#define MOST_BLOCKS (1u << 16)
#define LOOK        64 /* blocks between two looks at the clock */

static uint64_t state = 88172645463325252ull;

/* xorshift64: the same blocks in each run. Source: G. Marsaglia, Xorshift RNGs, 2003. */
static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* 64 bytes to 512 kB, as many between 2^n and 2^(n+1) for each n: most memory is in the large ones.
 */
static size_t draw_bytes(void)
{
	size_t step = 64ul << draw() % 13;

	return step + draw() % step;
}

static char *blocks[MOST_BLOCKS];
static size_t sizes[MOST_BLOCKS];

static void make(unsigned i)
{
	sizes[i] = draw_bytes();
	blocks[i] = malloc(sizes[i]);
	if (!blocks[i])
		exit(3);
	memset(blocks[i], 1, sizes[i]);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long microseconds(const struct timeval *time)
{
	return time->tv_sec * 1000000 + time->tv_usec;
}

int main(int argc, char **argv)
{
	size_t held = argc == 4 ? strtoul(argv[1], NULL, 10) * MB : 0;
	size_t live = argc == 4 ? strtoul(argv[2], NULL, 10) * MB : 0;
	void *outside =
		mmap(NULL, held, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long done = 0;
	unsigned count = 0;
	struct rusage before, after;
	double end;

	if (!held || outside == MAP_FAILED)
		return 2;
	memset(outside, 1, held);
	for (size_t sum = 0; count < MOST_BLOCKS && sum < live; count++) {
		make(count);
		sum += sizes[count];
	}
	(void)getrusage(RUSAGE_SELF, &before);
	for (end = now() + atof(argv[3]); now() < end;) {
		for (int i = 0; i < LOOK; i++, done++) {
			unsigned at = draw() % count;

			free(blocks[at]);
			make(at);
		}
	}
	(void)getrusage(RUSAGE_SELF, &after);
	printf("%lu %ld %ld\n", done,
	       microseconds(&after.ru_utime) + microseconds(&after.ru_stime) -
		       microseconds(&before.ru_utime) - microseconds(&before.ru_stime),
	       after.ru_minflt - before.ru_minflt);
	return 0;
}
