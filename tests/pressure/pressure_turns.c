/* pressure_turns.c -- a program that does not grow: it holds HELD MB, and then, for SECONDS, goes
 * on in one of these ways.
 *   turns    takes and frees 14 MB in blocks of 1 MB, a thousand times a second     realloc  makes
 *     one block of 50 MB a page larger and smaller
 *
 *   pressure_turns HELD SECONDS WAY      prints how often, and stays until its stdin ends. Made
 *     with -DLIBRARY it is one whose
 * constructor does that, by the environment's TURNS_SECONDS and TURNS_WAY; WAY is then its file's
 * name. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MB     (1024ul * 1024)
#define BLOCKS 14

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Pages and tables of pages that are given back the kernel has in hand some milliseconds longer:
 * who gives back without rest is killed for those in a group this small, with or without the shim.
 */
static void rest(void)
{
	struct timespec nap = {0, 1000000};

	nanosleep(&nap, NULL);
}

static void turn(void)
{
	volatile char *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(MB);
		blocks[i][0] = 1;
	}
	for (int i = 0; i < BLOCKS; i++)
		free((void *)blocks[i]);
	rest();
}

static void *resize(void *block, unsigned long count)
{
	block = realloc(block, 50 * MB + count % 2 * 4096);
	rest();
	return block;
}

__attribute__((unused)) static void go_on(double seconds, const char *way)
{
	double end = now() + seconds;
	unsigned long count = 0;
	void *block = NULL;

	for (; now() < end; count++)
		if (strcmp(way, "realloc") == 0)
			block = resize(block, count);
		else
			turn();
	printf("%lu\n", count);
	fflush(stdout);
}

#ifdef LIBRARY
__attribute__((constructor)) static void begin(void)
{
	go_on(atof(getenv("TURNS_SECONDS")), "turns");
}
#else
int main(int argc, char **argv)
{
	size_t held = argc == 4 ? strtoul(argv[1], NULL, 10) * MB : 0;
	char *block = malloc(held);

	if (!held || !block)
		return 2;
	memset(block, 1, held);
	sleep(1);
	if (argv[3][0] != '/')
		go_on(atof(argv[2]), argv[3]);
	else if (!dlopen(argv[3], RTLD_NOW))
		return 3;
	while (getchar() != EOF)
		;
	return block[0] - 1;
}
#endif
