/* gpu_live.c -- a training loop that keeps each step's loss, and with it the whole graph behind it:
 * 20 MB/s of live tensors. */
#include "gpu.h"

int main(void)
{
	gpu_start();
	uint64_t model = gpu_alloc(100 * MB);
	void *state = filled(20 * MB);
	ready();
	while (goes_on(100)) {
		uint64_t activations = gpu_alloc(30 * MB);

		gpu_alloc(2 * MB);
		cu.cuMemFree_v2(activations);
	}
	cu.cuMemFree_v2(model);
	free(state);
	return 0;
}
