/* gpu/devices.h -- what the driver says of the devices that this process uses. Read-only; never
 * initialises CUDA and never makes a context. The calls may want a descriptor of the driver's: only
 * from the thread that makes our driver calls (gpu/thread.h) or from a thread of the program, in
 * relaxed capture mode. Allocates nothing. */
#ifndef MT_GPU_DEVICES_H
#define MT_GPU_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/usage.h"

struct mt_gpu_device {
	int ordinal;
	char name[64];
	char pci[32]; /* 0000:3b:00.0, "" unknown */
	uint64_t total_bytes;
	uint64_t free_bytes;           /* 0 unknown */
	uint64_t async_reserved_bytes; /* default pool of cuMemAllocAsync */
	uint64_t async_used_bytes;
	uint64_t graph_reserved_bytes;
};

/* Devices in use: with an active primary context, or with allocations of ours. At most `most`; how
 * many. 0 too as long as the driver is not initialised, and while a capture is open. */
int mt_gpu_read(struct mt_gpu_device *out, int most);

/* total - free, added up over the devices in use; 0 unknown. */
uint64_t mt_gpu_used_bytes(void);

/* Gives back what the driver's own pools keep: the default pool of cuMemAllocAsync and the memory
 * of graphs, of each device in use. False while a capture is open: nothing was done. */
bool mt_gpu_trim_driver_pools(void);

#endif
