/* gpu/stats.h -- the devices that this process uses, as the driver tells of them, and their rows in
 * the stats file: pool, other kinds, figures of the driver and of NVML.
 *
 * What asks the driver never initialises CUDA and never creates a context, and may need a
 * descriptor of the driver: on the driver thread (gpu/driver.h) or a thread of the program, in
 * relaxed capture mode. It allocates nothing; takes no lock but the capture gate. What publishes
 * runs on the worker thread, but for the pure functions. */
#ifndef MT_GPU_STATS_H
#define MT_GPU_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/unpooled.h"
#include "gpu/pool.h"
#include "gpu/nvml.h"
#include "core/dump_layout.h"
#include "core/stats_layout.h"

struct mt_gpu_device {
	int ordinal;
	char name[64];
	char pci[MT_PCI_BYTES]; /* mt_driver_read_pci */
	uint64_t total_bytes;
	uint64_t free_bytes;           /* 0 unknown */
	uint64_t async_reserved_bytes; /* default pool of cuMemAllocAsync */
	uint64_t graph_reserved_bytes;
};

/* Reads the devices in use: with an active primary context, or with allocations of the program. Up
 * to `limit`; returns how many. 0 also while the driver is not initialised; -1 while a capture is
 * open: nothing was read. */
int mt_gpu_stats_read(struct mt_gpu_device *out, int limit);

/* Trims the driver's own pools, the default pool of cuMemAllocAsync and the memory of graphs, of a
 * device; MT_ANY_DEVICE: of each one in use. Returns false while a capture is open: nothing was
 * done. */
bool mt_gpu_stats_trim_pools(int device);

/* Fills one device's row. Pure. */
void mt_gpu_stats_fill(struct mt_stats_device *to, const struct mt_gpu_device *device,
		       const struct mt_pool_usage *pool, const struct mt_unpooled_usage *others,
		       const struct mt_nvml_usage *nvml);

/* Returns what the driver charges this process for on the device, as far as it and our figures
 * tell: without managed memory, which may be anywhere, and memory of others. */
uint64_t mt_gpu_stats_held_bytes(const struct mt_gpu_device *device);

/* Publishes the rows and their sums. full: the driver is asked too. */
void mt_gpu_stats_publish(bool full);

/* Returns the number of rows as last published, *out. */
uint32_t mt_gpu_stats_rows(const struct mt_stats_device **out);

/* Returns what the program holds of all devices, without a call to the driver. */
uint64_t mt_gpu_stats_live_bytes(void);

/* ---- the blocks of the pool in a file beside the stats file (core/dump_layout.h), for mtctl.
 * Worker thread. Makes no call to the driver.
 *
 * The blocks are copied one by one while the program runs, each under its context's lock for less
 * than a microsecond. So a list is no single moment: a block that is allocated or freed meanwhile
 * may be missing, or come twice, of which the later copy is right. ---- */

/* Writes the file. NOT_AVAILABLE: no pool here, or no files. SYSTEM: the file failed, and there
 * is none. */
enum mt_err mt_gpu_stats_write_blocks(void);

/* Removes a file that mtctl has not fetched within a minute: /dev/shm is memory. Returns when to
 * run again (ns of CLOCK_MONOTONIC); UINT64_MAX: not. */
uint64_t mt_gpu_stats_tick(uint64_t now_ns);

/* Copies a record of mt_blocks_each. Returns false for a spare one, and one that leaves. */
bool mt_gpu_stats_copy_block(struct mt_block *block, struct mt_blocks_entry *out);

#endif
