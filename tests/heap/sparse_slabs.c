/* sparse_slabs.c -- prints by how many kB RSS has grown after 8,000 blocks of 14 kB, of each of
 * which one byte is touched. */
#include <stdio.h>
#include <stdlib.h>

#include "rollup.h"

#define BYTES (14u << 10)
#define COUNT 8000u

int main(void)
{
	long before = rollup_kb("Rss:");

	for (size_t i = 0; i < COUNT; i++) {
		volatile char *block = malloc(BYTES);

		*block = 1;
	}
	printf("%ld\n", rollup_kb("Rss:") - before);
	return 0;
}
