/* pressure_grow.c -- one block that grows to MB by 1 MB at a time, written as it grows; three
 * times.
 *
 *   pressure_grow MB      prints "peak N MB N faults": the largest resident size, and page faults
 *                         without I/O */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MB (1024ul * 1024)

static void grow(size_t most)
{
	unsigned char *block = NULL;

	for (size_t size = MB; size <= most; size += MB) {
		block = realloc(block, size);
		if (!block)
			exit(3);
		memset(block + size - MB, (int)(size / MB % 251), MB);
	}
	for (size_t at = 0; at < most; at += MB / 8)
		if (block[at] != (at / MB + 1) % 251)
			exit(4);
	free(block);
}

int main(int argc, char **argv)
{
	struct rusage usage;

	if (argc < 2)
		return 2;
	for (int i = 0; i < 3; i++)
		grow(strtoul(argv[1], NULL, 10) * MB);
	getrusage(RUSAGE_SELF, &usage);
	printf("peak %ld MB %ld faults\n", usage.ru_maxrss / 1024, usage.ru_minflt);
	return 0;
}
