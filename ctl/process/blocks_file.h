/* ctl/process/blocks_file.h -- the blocks of a GPU pool as a process has written them down
 * (core/blocks_layout.h), read and made fit to be counted. The file is not trusted: magic, version,
 * sizes, checksums, and every size and state in it are checked. */
#ifndef MT_CTL_PROCESS_BLOCKS_FILE_H
#define MT_CTL_PROCESS_BLOCKS_FILE_H

#include <stddef.h>

#include "ctl/output/error.h"
#include "core/blocks_layout.h"

/* No device has as much; with MT_BLOCKS_MAX of them a sum still fits into 64 bits. */
#define MT_BLOCKS_FILE_BYTES_MAX ((uint64_t)1 << 44)

struct mt_blocks_file {
	struct mt_blocks_head head;
	struct mt_blocks_entry *entries; /* by device, then by address; each address once */
	size_t count;
};

/* INVALID with the reason. The caller frees with mt_blocks_file_free. */
enum mt_err mt_blocks_file_read(int fd, struct mt_blocks_file *out, struct mt_why *why);
void mt_blocks_file_free(struct mt_blocks_file *file);

/* "live", "exported", "pending", "idle" */
const char *mt_blocks_file_state(unsigned state);

#endif
