/* How jemalloc zeroes whole pages that it hands out again. Internal to jemalloc 5.3, src/ehooks.c;
 * a version without this function never calls ours. There the pages go back to the kernel: a fault
 * for each when it is touched costs several times what it costs to write zeros, and in a program
 * with threads all of them wait for the address space. glibc, tcmalloc and mimalloc write zeros. */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* More goes back to the kernel, since the program may use little of it; glibc maps a block of that
 * size again. */
#define WRITTEN_BYTES ((size_t)32 << 20)

void mt_je_ehooks_default_zero_impl(void *from, size_t bytes);

/* Whole pages, by the thread that allocates. */
void mt_je_ehooks_default_zero_impl(void *from, size_t bytes)
{
	if (bytes <= WRITTEN_BYTES || madvise(from, bytes, MADV_DONTNEED) != 0)
		memset(from, 0, bytes);
}
