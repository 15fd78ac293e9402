/* returned_pages.c KIND: makes memory that the kernel could put into huge pages, frees
 * most of it and waits for a purge. Prints resident and huge MB then, and three seconds
 * later. Then it lives until its stdin ends. small: 100,000 blocks, 1 in 20 is kept. advised: large
 * blocks with MADV_HUGEPAGE, as NumPy's; then 40,000 small ones in the same memory, 1 in 100 is
 * kept. large: one block, which is kept. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COUNT       100000u
#define LARGE_BYTES ((size_t)9 << 20)
#define LARGE_COUNT 16u
#define PAGE        4096u

static char *blocks[COUNT];
static char *large[LARGE_COUNT];

static size_t read_mb(const char *name)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[200];
	size_t kb = 0;

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			sscanf(line + strlen(name), " %zu", &kb);
	if (file)
		fclose(file);
	return kb >> 10;
}

static void show(void)
{
	printf("%zu %zu\n", read_mb("Rss:"), read_mb("AnonHugePages:"));
	fflush(stdout);
}

static void make_small(size_t count, size_t kept)
{
	uint32_t state = 1;

	for (size_t i = 0; i < count; i++) {
		size_t bytes = 512 + ((state = state * 1103515245u + 12345u) >> 8) % 1537;

		memset(blocks[i] = malloc(bytes), 1, bytes);
	}
	for (size_t i = 0; i < count; i++)
		if (i % kept)
			free(blocks[i]);
}

static void make_large(size_t count, int is_advised)
{
	for (size_t i = 0; i < count; i++) {
		char *pages = large[i] = malloc(LARGE_BYTES);

		pages += PAGE - (uintptr_t)pages % PAGE;
		if (is_advised)
			madvise(pages, LARGE_BYTES - PAGE, MADV_HUGEPAGE);
		memset(large[i], 1, LARGE_BYTES);
	}
}

static void wait_for_purge(size_t full_mb)
{
	for (int i = 0; i < 100 && read_mb("Rss:") > full_mb / 2; i++)
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

int main(int count, char **words)
{
	size_t full_mb;

	if (count != 2)
		return 2;
	if (strcmp(words[1], "small") == 0)
		make_small(COUNT, 20);
	else
		make_large(LARGE_COUNT, strcmp(words[1], "advised") == 0);
	full_mb = read_mb("Rss:");
	if (strcmp(words[1], "advised") == 0) {
		for (size_t i = 0; i < LARGE_COUNT; i++)
			free(large[i]);
		make_small(40000, 100);
	}
	if (strcmp(words[1], "large") != 0)
		wait_for_purge(full_mb);
	show();
	sleep(3);
	show();
	return getchar() == EOF ? 0 : 1;
}
