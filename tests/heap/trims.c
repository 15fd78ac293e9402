/* trims.c -- fills 400 MB with small blocks, frees seven of eight, and calls malloc_trim (or
 * mt_trim, where the argument is mt_trim; in a forked child, where it is child). Prints what it has
 * returned, the microseconds of CPU time that it took the calling thread, whether 250 MB have gone
 * when it returns, whether they have within 30 s, and
 * how many pages of the block that the thread has freed last are resident then. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4000
#define COUNT 100000

#define LAST_BYTES 30000

static char *blocks[COUNT];

static long cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static long resident_mb(void)
{
	long size, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2)
		abort();
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE) >> 20;
}

/* Its pages are looked at once they are free, and may have become another block's. */
static int last_pages(const char *block)
{
	unsigned char resident[LAST_BYTES / 4096] = {0};
	uintptr_t first = ((uintptr_t)block + 4095) & ~(uintptr_t)4095;
	int count = 0;

	if (mincore((void *)first, sizeof(resident) * 4096, resident) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(resident); i++)
		count += resident[i] & 1;
	return count;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int64_t (*mt_trim)(int) = NULL;
	long before, began, took, answer;
	int has_gone, turns = 0;
	char *volatile last;

	if (strcmp(how, "mt_trim") == 0)
		*(void **)(void *)&mt_trim = dlsym(RTLD_DEFAULT, "mt_trim");
	for (int i = 0; i < COUNT; i++)
		memset(blocks[i] = malloc(BLOCK), 1, BLOCK);
	for (int i = 0; i < COUNT; i++)
		if (i % 8)
			free(blocks[i]);
	if (strcmp(how, "child") == 0 && fork()) {
		wait(NULL);
		return 0;
	}
	last = memset(malloc(LAST_BYTES), 1, LAST_BYTES);
	free(last);
	before = resident_mb();
	began = cpu_us();
	answer = mt_trim ? mt_trim(0) > 0 : malloc_trim(0);
	took = cpu_us() - began;
	has_gone = resident_mb() < before - 250;
	while (resident_mb() >= before - 250 && ++turns < 3000)
		usleep(10000);
	for (turns = 0; last_pages(last) && turns < 500; turns++)
		usleep(10000);
	printf("%ld %ld %d %d %d\n", answer, took, has_gone, resident_mb() < before - 250,
	       last_pages(last));
	return 0;
}
