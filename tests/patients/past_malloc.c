/* past_malloc.c -- an allocator of the program's own, straight on mmap, that keeps what is freed:
 * malloc gets nothing, and the shim sleeps. */
#include <sys/mman.h>

#include "patient.h"

int main(void)
{
	ready();
	memset(must(mmap(NULL, 86 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0)),
	       'x', 86 * MB);
	while (goes_on(100))
		;
	return 0;
}
