/* Takes 64 MB in blocks of argv[1] bytes, writes them, and prints by how much the resident memory
 * has grown for each byte asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL_BYTES (64 << 20)

static long rss_kb(void)
{
	char line[256];
	long kb = 0;
	FILE *rollup = fopen("/proc/self/smaps_rollup", "r");

	while (rollup && !kb && fgets(line, sizeof line, rollup))
		sscanf(line, "Rss: %ld", &kb);
	if (rollup)
		fclose(rollup);
	return kb;
}

int main(int argc, char **argv)
{
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 1300;
	long before_kb = rss_kb();

	for (size_t taken = 0; taken < TOTAL_BYTES; taken += size) {
		char *block = malloc(size);

		if (!block)
			return 1;
		memset(block, 1, size);
		__asm__ volatile("" : : "r"(block) : "memory");
	}
	printf("%.3f\n", (double)(rss_kb() - before_kb) * 1024 / TOTAL_BYTES);
	return 0;
}
