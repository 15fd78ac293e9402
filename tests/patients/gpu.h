/* gpu.h -- a patient that uses a device: its driver functions, a context, and work that goes on. */
#ifndef GPU_H
#define GPU_H

#include "cuda_client.h"
#include "patient.h"

static inline void gpu_start(void)
{
	void *context;

	if (cuda_client_start("global") != 0 || cu.cuInit(0) != 0 ||
	    cu.cuDevicePrimaryCtxRetain(&context, 0) != 0 || cu.cuCtxSetCurrent(context) != 0) {
		fprintf(stderr, "no device\n");
		exit(3);
	}
}

/* Device memory; 0 where there is none left. */
static inline uint64_t gpu_alloc(size_t bytes)
{
	uint64_t block = 0;

	return cu.cuMemAlloc_v2(&block, bytes) == 0 ? block : 0;
}

#endif
