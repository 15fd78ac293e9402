/* sparse_slabs.c -- prints by how many kB RSS has grown after 8,000 blocks of 14 kB, of each of
 * which one byte is touched. */
#include <stdio.h>
#include <stdlib.h>

#define BYTES (14u << 10)
#define COUNT 8000u

static long rss_kb(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kb = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Rss: %ld", &kb) == 1)
			break;
	if (file)
		fclose(file);
	return kb;
}

int main(void)
{
	long before = rss_kb();

	for (size_t i = 0; i < COUNT; i++) {
		volatile char *block = malloc(BYTES);

		*block = 1;
	}
	printf("%ld\n", rss_kb() - before);
	return 0;
}
