/* ctl/process/blocks_file.h -- reads the file in which a process lists the blocks of its GPU pool
 * (core/blocks_layout.h). The file is not trusted: magic, version, sizes, checksums, and each size
 * and state in it are checked. One thread may call. */
#ifndef MT_CTL_PROCESS_BLOCKS_FILE_H
#define MT_CTL_PROCESS_BLOCKS_FILE_H

#include <stddef.h>

#include "ctl/output/error.h"
#include "core/blocks_layout.h"

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

#endif
