/* ctl/process/lines_file.h -- reads the file of a look at a process's Python lines
 * (core/lines_layout.h). The file is not trusted: magic, version, sizes, checksums, and each index
 * in it are checked. One thread may call. */
#ifndef MT_CTL_PROCESS_LINES_FILE_H
#define MT_CTL_PROCESS_LINES_FILE_H

#include "ctl/output/error.h"
#include "core/lines_layout.h"

/* Bytes and counts above it are not valid: sums of all stacks then fit into 63 bits. */
#define MT_LINES_FILE_BYTES_MAX ((uint64_t)1 << 47)

struct mt_lines_file {
	struct mt_lines_head head;
	/* NULL where the outcome is not MT_LINES_DONE */
	struct mt_lines_stack *stacks;
	struct mt_lines_frame *frames;
	char *names; /* each is printable, and ends with NUL */
	void *content;
};

/* Reads the file from an open descriptor into *out. Returns MT_ERR_INVALID, with the reason, for a
 * file that is not valid. The caller frees with mt_lines_file_free. */
enum mt_err mt_lines_file_read(int fd, struct mt_lines_file *out, struct mt_error_reason *why);
void mt_lines_file_free(struct mt_lines_file *file);

#endif
