/* ctl/process/gpu_memory.h -- how much memory of a GPU is free now: by NVIDIA's management library,
 * loaded at run time; where there is none, by what a shimmed process has last seen. Nobody is
 * woken. Numbers of devices are NVML's, or that process's. */
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

/* The device of this number, or for MT_GPU_ANY the one with most free. false: nothing is known of
 * it. */
bool mt_gpu_memory_find(long number, struct mt_gpu_memory *out);

#endif
