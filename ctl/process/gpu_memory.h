/* ctl/process/gpu_memory.h -- how much memory of a GPU is free: from NVML, loaded at run time, or
 * else from the last figures of a shimmed process. Device numbers are those of NVML, or of that
 * process. Sends no request to any process. One thread may call. */
#ifndef MT_CTL_PROCESS_GPU_MEMORY_H
#define MT_CTL_PROCESS_GPU_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define MT_GPU_ANY (-1)

struct mt_gpu_memory {
	uint64_t number;
	char name[64]; /* clean; "" unknown */
	uint64_t free_bytes, total_bytes;
	char source[64]; /* "NVML", "process 123" */
};

/* Finds the device of this number, or for MT_GPU_ANY the device with the most free memory. Returns
 * false where no figures of it are known. */
bool mt_gpu_memory_find(long number, struct mt_gpu_memory *out);

#endif
