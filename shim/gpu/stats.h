/* gpu/stats.h -- the rows of devices in the stats file: pool, other kinds, figures of the driver
 * and of NVML. Worker thread, but for the pure functions. */
#ifndef MT_GPU_STATS_H
#define MT_GPU_STATS_H

#include <stdbool.h>

#include "gpu/unpooled.h"
#include "gpu/usage.h"
#include "gpu/devices.h"
#include "gpu/nvml.h"
#include "core/stats_layout.h"

/* Fills one device's row. Pure. */
void mt_gpu_stats_fill(struct mt_stats_device *to, const struct mt_gpu_device *device,
		       const struct mt_pool_usage *pool, const struct mt_unpooled_usage *others,
		       const struct mt_nvml_usage *nvml);

/* The bytes charged beyond our allocations, for one reply of NVML. */
struct mt_gpu_stats_unattributed {
	uint64_t ordinal;
	uint64_t read_ns;
	uint64_t unattributed_bytes;
};

/* NVML's replies are cached for seconds, in which the program allocates and frees. So
 * unattributed_bytes of the row stays what it was when the reply of read_ns was new, and
 * nvml_age_ms says how old that is. Pure but for *last. */
void mt_gpu_stats_date(struct mt_stats_device *row, struct mt_gpu_stats_unattributed *last,
		       uint64_t read_ns, uint64_t now_ns);

/* Returns what the driver charges this process for on the device, as far as the row tells: without
 * managed memory, which may be anywhere, and memory of others. Pure. */
uint64_t mt_gpu_stats_held_bytes(const struct mt_stats_device *row);

/* Adds a row to the summed figures. Pure. */
void mt_gpu_stats_add(struct mt_stats_snapshot *to, const struct mt_stats_device *from);

/* Publishes the rows and their sums. full: the driver is asked too. */
void mt_gpu_stats_publish(bool full);

/* Returns the number of rows as last published, *out. */
uint32_t mt_gpu_stats_rows(const struct mt_stats_device **out);

/* Returns what the program holds of all devices, without a call to the driver. */
uint64_t mt_gpu_stats_live_bytes(void);

void mt_gpu_stats_fork_child(void);

#endif
