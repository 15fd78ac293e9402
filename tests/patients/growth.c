/* growth.c -- a program with buffers straight from mmap that it never unmaps: 2 MB/s, and no
 * allocator knows of them. */
#include <sys/mman.h>

#include "patient.h"

int main(void)
{
	/* a size of jemalloc: live and resident are the same */
	void *tables = filled(384 * MB);

	ready();
	while (goes_on(125))
		memset(must(mmap(NULL, MB / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0)),
		       'x', MB / 4);
	free(tables);
	return 0;
}
