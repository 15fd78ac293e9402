/* gpu_pinned.c -- a loader with a page-locked buffer for each of 40 batches in flight: 160 MB of
 * host memory that no trim reaches. */
#include "gpu.h"

enum { BUFFERS = 40 };

int main(void)
{
	void *buffers[BUFFERS];

	gpu_start();
	uint64_t batch = gpu_alloc(4 * MB);
	for (int i = 0; i < BUFFERS; i++) {
		if (cu.cuMemHostAlloc(&buffers[i], 4 * MB, 0) != 0)
			return 2;
		memset(buffers[i], i, 4 * MB);
	}
	void *state = filled(20 * MB);
	ready();
	for (int i = 0; goes_on(50); i++)
		cu.cuMemcpyHtoD_v2(batch, buffers[i % BUFFERS], 4 * MB);
	free(state);
	return 0;
}
