/* calloc_again.c -- blocks from calloc, written, freed and asked for again: whether they are zero,
 * and how many page faults that takes. Prints the faults of the blocks for each hundred of their
 * pages, and by how much resident memory grows for a large one of which a little is used, in % of
 * the block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define KEPT  8
#define COUNT 400

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static char *zeroed(size_t bytes)
{
	char *block = calloc(1, bytes);

	if (!block || block[0] || memcmp(block, block + 1, bytes - 1) != 0) {
		puts("not zero");
		exit(1);
	}
	return block;
}

static long pages_resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all = 0, resident = 0;

	if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2)
		exit(2);
	fclose(file);
	return resident;
}

int main(void)
{
	static const size_t sizes[] = {20000, 131072, 700000, 5000000};
	char *kept[KEPT] = {0};
	long pages = 0, begun = faults(), resident;
	size_t large = (size_t)100 << 20;

	for (int i = 0; i < COUNT; i++) {
		size_t bytes = sizes[i % 4] + (size_t)(i % 7) * 4096;

		free(kept[i % KEPT]);
		kept[i % KEPT] = zeroed(bytes);
		memset(kept[i % KEPT], i | 1, bytes);
		pages += (long)(bytes / 4096);
	}
	printf("%ld\n", (faults() - begun) * 100 / pages);
	for (int i = 0; i < KEPT; i++)
		free(kept[i]);
	free(memset(malloc(large), 1, large));
	resident = pages_resident();
	kept[0] = calloc(1, large);
	for (size_t at = 0; at < large; at += large / 50)
		if (kept[0][at]++)
			return 1;
	printf("%ld\n", (pages_resident() - resident) * 4096 * 100 / (long)large);
	return 0;
}
