#include "heap/jemalloc_kernel.h"

#include <sys/mman.h>

#include "sys/attr.h"

/* what is smaller any machine has; two calls are nothing beside filling it */
#define PROBED_BYTES (256u << 20)

/* Where the kernel overcommits, jemalloc maps without reserve, and so gets what no machine has: a
 * program that libc would have told that there is no memory fills it, and is ended. So the kernel
 * is asked first with reserve, whatever its policy, for what is large. Not mapped so for good:
 * pages that are kept lie side by side, and fork refuses an area with reserve that is larger than
 * the machine. And for four fifths: a class of sizes is up to a quarter larger than what is asked
 * for. */
bool mt_jemalloc_kernel_has(size_t bytes, int protection, int flags)
{
	size_t probed = bytes / 5 * 4;
	void *probe;

	if (mt_likely(bytes < PROBED_BYTES) || !(flags & MAP_NORESERVE))
		return true;
	probe = mmap(NULL, probed, protection, flags & ~(MAP_NORESERVE | MAP_FIXED), -1, 0);
	if (probe == MAP_FAILED)
		return false;
	(void)munmap(probe, probed);
	return true;
}
