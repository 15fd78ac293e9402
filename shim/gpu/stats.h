/* gpu/stats.h -- devices as the stats file shows them: pool, other kinds, the driver's and NVML's
 * figures. */
#ifndef MT_GPU_STATS_H
#define MT_GPU_STATS_H

#include <stdbool.h>

#include "gpu/unpooled.h"
#include "gpu/usage.h"
#include "gpu/devices.h"
#include "gpu/nvml.h"
#include "core/stats_layout.h"

/* What one device's row says. Pure. */
void mt_gpu_stats_fill(struct mt_stats_device *to, const struct mt_gpu_device *device,
		       const struct mt_pool_usage *pool, const struct mt_unpooled_usage *others,
		       const struct mt_nvml_usage *nvml);

/* What was charged beyond our allocations, by one answer of NVML's. */
struct mt_gpu_stats_reckoned {
	uint64_t ordinal;
	uint64_t read_ns;
	uint64_t unattributed_bytes;
};

/* NVML's answers are kept for seconds, in which the program allocates and frees: unattributed_bytes
 * of the row is the one that was reckoned when the answer of read_ns was new, and nvml_age_ms says
 * how old that is. Pure but for *kept. */
void mt_gpu_stats_date(struct mt_stats_device *row, struct mt_gpu_stats_reckoned *kept,
		       uint64_t read_ns, uint64_t now_ns);

/* Adds a row to the summed figures. Pure. */
void mt_gpu_stats_add(struct mt_stats_snapshot *to, const struct mt_stats_device *from);

/* Into the snapshot and the table. full: the driver is asked too. */
void mt_gpu_stats_publish(bool full);

/* The rows as they were published last; how many. The worker's. */
uint32_t mt_gpu_stats_rows(const struct mt_stats_device **out);

/* What the program holds of all devices. Fresh, and the driver is not asked. */
uint64_t mt_gpu_stats_live_bytes(void);

void mt_gpu_stats_fork_child(void);

#endif
