/* heap_boot.c -- the memory of before the allocator, which is never taken back, made new for each
 * input. */
#include "shim/heap/bootstrap.c"

#include "heap_boot.h"

void fuzz_boot_anew(void)
{
	unsigned int count = atomic_load(&far_count);

	for (unsigned int i = 0; i < count && i < FAR_BLOCKS; i++)
		if (far_blocks[i].from)
			(void)munmap((void *)far_blocks[i].from,
				     far_blocks[i].to - far_blocks[i].from);
	memset(far_blocks, 0, sizeof(far_blocks));
	atomic_store(&far_count, 0);
	memset(arena, 0, atomic_load(&arena_used));
	atomic_store(&arena_used, 0);
}
