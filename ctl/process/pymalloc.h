/* ctl/process/pymalloc.h -- how full the arenas of Python's own allocator are, read from outside.
 * Its pools (16 kB from Python 3.10 on, 4 kB before) begin with a header that says for what size of
 * block a pool is, and how many of them are live; a header that does not hold together is none.
 * Only headers are read, of resident pages of private anonymous mappings: nothing is written, made
 * resident or stopped, and what changes meanwhile makes the sum a little wrong, no more. Source:
 * CPython, Objects/obmalloc.c, struct pool_header; the same from 3.3 to 3.13. */
#ifndef MT_CTL_PROCESS_PYMALLOC_H
#define MT_CTL_PROCESS_PYMALLOC_H

#include "ctl/process/process.h"

#define MT_PYMALLOC_HEADER_BYTES 48

struct mt_pymalloc {
	uint64_t pools_count, pools_bytes; /* that hold objects or did */
	uint64_t live_bytes;               /* in live blocks */
};

/* false: not allowed to (Yama's ptrace_scope), or gone. No pool found at all is no error. */
bool mt_pymalloc_read(const struct mt_process *process, struct mt_pymalloc *out);

/* Whether these bytes can be the header of a pool of this size; what is live in it. Pure. */
bool mt_pymalloc_parse_header(const unsigned char *header, uint64_t pool_bytes,
			      uint64_t *out_live_bytes);

#endif
