/* gpu_cache.c -- one evaluation with large batches, then small ones: 600 MB stay reserved in the
 * pool, of which 60 are used. */
#include "gpu.h"

enum { BATCHES = 30 };

int main(void)
{
	uint64_t batches[BATCHES];

	gpu_start();
	for (int i = 0; i < BATCHES; i++)
		batches[i] = gpu_alloc(20 * MB);
	for (int i = 3; i < BATCHES; i++)
		cu.cuMemFree_v2(batches[i]);
	cu.cuCtxSynchronize();
	void *state = filled(20 * MB);
	ready();
	while (goes_on(100))
		cu.cuMemFree_v2(gpu_alloc(MB));
	free(state);
	return 0;
}
