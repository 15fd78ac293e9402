/* gpu/snapshot.h -- writes the blocks of the pool to a file beside the stats file
 * (core/dump_layout.h), for mtctl. Worker thread. Makes no call to the driver; its buffer is
 * mapped while it writes.
 *
 * The blocks are copied one by one while the program runs, each under its context's lock for less
 * than a microsecond. So a list is no single moment: a block that is allocated or freed meanwhile
 * may be missing, or come twice, of which the later copy is right. */
#ifndef MT_GPU_SNAPSHOT_H
#define MT_GPU_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/attr.h"
#include "core/dump_layout.h"
#include "gpu/blocks.h"

/* Writes the file. NOT_AVAILABLE: no pool here, or no files. NO_MEMORY, SYSTEM: the buffer or the
 * file failed, and there is no file. */
enum mt_err mt_gpu_snapshot_write(void);

/* Removes a file that mtctl has not fetched within a minute: /dev/shm is memory. Returns when to
 * run again (ns of CLOCK_MONOTONIC); UINT64_MAX: not. */
uint64_t mt_gpu_snapshot_tick(uint64_t now_ns);

void mt_gpu_snapshot_fork_child(void);

/* Starts a list of the blocks. Returns false if there is no pool: before the first use of CUDA,
 * after its end, in a forked child. */
bool mt_block_list_start(struct mt_block_walk *walk);

/* Copies the next block. Returns false at the end. */
bool mt_block_list_next(struct mt_block_walk *walk, struct mt_blocks_entry *out);

#endif
