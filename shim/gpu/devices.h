/* gpu/devices.h -- figures of the driver about the devices that this process uses, and its own
 * pools. Never initialises CUDA and never creates a context. The calls may need a descriptor of the
 * driver: on the driver thread (gpu/thread.h) or a thread of the program, in relaxed capture mode.
 * Allocates nothing; takes no lock but the capture gate. */
#ifndef MT_GPU_DEVICES_H
#define MT_GPU_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/usage.h"

/* Sets out to where the device is on the PCI bus, "0000:3b:00.0"; "": unknown. */
#define MT_PCI_BYTES 16 /* as in struct mt_rescue_request */
void mt_gpu_read_pci(int device, char out[MT_PCI_BYTES]);

struct mt_gpu_device {
	int ordinal;
	char name[64];
	char pci[MT_PCI_BYTES]; /* mt_gpu_read_pci */
	uint64_t total_bytes;
	uint64_t free_bytes;           /* 0 unknown */
	uint64_t async_reserved_bytes; /* default pool of cuMemAllocAsync */
	uint64_t async_used_bytes;
	uint64_t graph_reserved_bytes;
};

/* Reads the devices in use: with an active primary context, or with allocations of the program. Up
 * to `limit`; returns how many. 0 also while the driver is not initialised, and while a capture is
 * open. */
int mt_gpu_read(struct mt_gpu_device *out, int limit);

/* Returns total - free, added up over the devices in use; 0: unknown. */
uint64_t mt_gpu_used_bytes(void);

/* Trims the driver's own pools, the default pool of cuMemAllocAsync and the memory of graphs, of a
 * device; MT_ANY_DEVICE: of each one in use. Returns false while a capture is open: nothing was
 * done. */
bool mt_gpu_trim_driver_pools(int device);

#endif
