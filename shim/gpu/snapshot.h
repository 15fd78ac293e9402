/* gpu/snapshot.h -- writes the blocks of the pool to a file beside the stats file
 * (core/blocks_layout.h), for mtctl. Worker thread. Makes no call to the driver; its buffer is
 * mapped while it writes. */
#ifndef MT_GPU_SNAPSHOT_H
#define MT_GPU_SNAPSHOT_H

#include <stdint.h>

#include "sys/attr.h"

/* Writes the file. NOT_AVAILABLE: no pool here, or no files. NO_MEMORY, SYSTEM: the buffer or the
 * file failed, and there is no file. */
enum mt_err mt_gpu_snapshot_write(void);

/* Removes a file that mtctl has not fetched within a minute: /dev/shm is memory. Returns when to
 * run again (ns of CLOCK_MONOTONIC); UINT64_MAX: not. */
uint64_t mt_gpu_snapshot_tick(uint64_t now_ns);

void mt_gpu_snapshot_fork_child(void);

#endif
