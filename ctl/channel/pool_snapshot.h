/* ctl/channel/pool_snapshot.h -- the blocks of the GPU pool of a process at one moment, and their
 * sums. mt_pool_snapshot_take sends a request to the process; all other functions are pure. One
 * thread may call. */
#ifndef MT_CTL_CHANNEL_POOL_SNAPSHOT_H
#define MT_CTL_CHANNEL_POOL_SNAPSHOT_H

#include <stdio.h>

#include "core/dump_layout.h"
#include "ctl/channel/target.h"
#include "ctl/output/error.h"

/* ---- the file of blocks ---- */

/* Reads the file in which a process lists the blocks of its GPU pool
 * (core/dump_layout.h). The file is not trusted: magic, version, sizes, checksums, and each size
 * and state in it are checked. One thread may call. */

/* The largest block that is valid: no device has as much memory. A sum of MT_BLOCKS_MAX such blocks
 * fits into 64 bits. */
#define MT_BLOCKS_FILE_BYTES_MAX ((uint64_t)1 << 44)

struct mt_blocks_file {
	struct mt_blocks_head head;
	struct mt_blocks_entry *entries; /* by device, then by address; each address once */
	size_t count;
};

/* Reads the file from an open descriptor into *out. Returns MT_ERR_INVALID, with the reason, for a
 * file that is not valid. The caller frees with mt_blocks_file_free. */
enum mt_err mt_blocks_file_read(int fd, struct mt_blocks_file *out, struct mt_error_reason *why);
void mt_blocks_file_free(struct mt_blocks_file *file);

/* Returns "live", "exported", "pending" or "idle". */
const char *mt_blocks_file_state(unsigned state);

/* ---- snapshot ---- */

struct mt_pool_snapshot {
	struct mt_target target; /* the process, and its figures from just after the blocks */
	struct mt_blocks_file blocks;
};

#define MT_POOL_SNAPSHOT_ALL UINT64_MAX

/* Which blocks are shown. */
struct mt_pool_snapshot_view {
	uint64_t device; /* an ordinal, or MT_POOL_SNAPSHOT_ALL */
	uint64_t top;    /* the number of blocks that are listed, the largest. Sums are of all */
};

/* Blocks of one state. bytes are what is held from the driver. */
struct mt_pool_snapshot_part {
	uint64_t count, bytes, asked_bytes, largest_bytes, oldest_ms;
};

/* one for each power of two up to MT_BLOCKS_FILE_BYTES_MAX */
#define MT_POOL_SNAPSHOT_SIZES 45
#define MT_POOL_SNAPSHOT_AGES  6

/* Sums over the blocks. */
struct mt_pool_snapshot_sums {
	struct mt_pool_snapshot_part states[MT_BLOCKS_STATES];
	struct mt_pool_snapshot_part sizes[MT_POOL_SNAPSHOT_SIZES]
					  [MT_BLOCKS_STATES]; /* [n]: from 2^n on */
	/* unused for less than 1 s, 10 s, 1 min, 10 min, 1 h; longer */
	struct mt_pool_snapshot_part idle_ages[MT_POOL_SNAPSHOT_AGES];
	/* purged within these times, cumulative */
	struct mt_pool_snapshot_part decay[MT_POOL_SNAPSHOT_AGES];
	uint64_t contexts_count;
	uint64_t count;
};

/* Asks the process for its blocks and reads them; the file is removed. Returns
 * MT_ERR_NOT_AVAILABLE, with the reason, if the process is asleep or uses no CUDA. The caller
 * frees with mt_pool_snapshot_free. */
enum mt_err mt_pool_snapshot_take(const struct mt_process *process, struct mt_pool_snapshot *out,
				  struct mt_error_reason *why);
void mt_pool_snapshot_free(struct mt_pool_snapshot *snapshot);

/* Adds up the blocks of one device, or of all (MT_POOL_SNAPSHOT_ALL). */
void mt_pool_snapshot_sum(const struct mt_blocks_file *blocks, uint64_t device,
			  struct mt_pool_snapshot_sums *out);

/* Calls visit for each device that has blocks or that the process uses, by ordinal. row is NULL
 * if the figures of the device are not known. */
typedef void mt_pool_snapshot_visit(const struct mt_pool_snapshot *snapshot, uint64_t device,
				    const struct mt_stats_device *row, void *data);
void mt_pool_snapshot_each_device(const struct mt_pool_snapshot *snapshot, uint64_t device,
				  mt_pool_snapshot_visit *visit, void *data);

/* Returns the blocks to be listed, the largest first or in the order of the file. The caller frees
 * the list. */
const struct mt_blocks_entry **mt_pool_snapshot_pick(const struct mt_blocks_file *blocks,
						     const struct mt_pool_snapshot_view *view,
						     bool largest_first, size_t *out_count);

/* Writes one JSON object and a newline. The caller checks `to` for errors (ferror(3)). */
void mt_pool_snapshot_write_json(const struct mt_pool_snapshot *snapshot,
				 const struct mt_pool_snapshot_view *view, FILE *to);

#endif
