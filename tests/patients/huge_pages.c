/* huge_pages.c -- a hash table in a region that was advised to use huge pages, and of which a few
 * words in each two megabytes are ever written: 8 MB are used, 200 resident. */
#include <sys/mman.h>

#include "patient.h"

enum { HUGE_BYTES = 2 << 20, COUNT = 100 };

int main(void)
{
	char *region = must(mmap(NULL, (COUNT + 1) * (size_t)HUGE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	char *table = (char *)(((uintptr_t)region + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1));

	madvise(table, COUNT * (size_t)HUGE_BYTES, MADV_HUGEPAGE);
	for (size_t i = 0; i < COUNT; i++)
		for (size_t j = 0; j < 20; j++)
			table[i * HUGE_BYTES + j * 100003] = 1;
	void *rest = filled(20 * MB);
	ready();
	while (goes_on(100))
		free(filled(1000));
	free(rest);
	return 0;
}
