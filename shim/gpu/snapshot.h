/* gpu/snapshot.h -- the blocks of the pool, written to a file beside the stats file
 * (core/blocks_layout.h) because mtctl asks for them. Worker thread only. Asks the driver nothing,
 * and allocates nothing: its buffer is mapped for the time of the snapshot. */
#ifndef MT_GPU_SNAPSHOT_H
#define MT_GPU_SNAPSHOT_H

#include <stdint.h>

#include "sys/attr.h"

/* NOT_AVAILABLE: no pool here, or no files. NO_MEMORY, SYSTEM: what the buffer or the file ran
 * into; then there is no file. */
enum mt_err mt_gpu_snapshot_write(void);

/* A file that nobody has fetched for a minute goes: /dev/shm is memory. When to come again (ns of
 * CLOCK_MONOTONIC), UINT64_MAX for never. */
uint64_t mt_gpu_snapshot_tick(uint64_t now_ns);

void mt_gpu_snapshot_fork_child(void);

#endif
