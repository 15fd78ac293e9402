/* ctl/process/pymalloc.h -- reads from outside how full the arenas of Python's pymalloc are. A pool
 * (16 kB from Python 3.10 on, 4 kB before) begins with a header that has its block size and its
 * number of live blocks. Bytes that make no valid header are skipped. Reads only headers, in
 * resident pages of private anonymous mappings. Never writes, makes no page resident, and stops no
 * thread, so that the sum is an estimate. Source: CPython, Objects/obmalloc.c, struct pool_header,
 * the same from 3.3 to 3.13. */
#ifndef MT_CTL_PROCESS_PYMALLOC_H
#define MT_CTL_PROCESS_PYMALLOC_H

#include "ctl/process/process.h"

#define MT_PYMALLOC_HEADER_BYTES 48

struct mt_pymalloc {
	uint64_t pools_count, pools_bytes; /* that hold objects or did */
	uint64_t live_bytes;               /* in live blocks */
};

/* Reads the pools of a process. Returns false if that is not allowed (Yama, ptrace_scope) or the
 * process has ended. No pool at all is no error. */
bool mt_pymalloc_read(const struct mt_process *process, struct mt_pymalloc *out);

/* Returns whether these bytes can be the header of a pool of this size, with its live bytes in
 * *out_live_bytes. Pure. */
bool mt_pymalloc_parse_header(const unsigned char *header, uint64_t pool_bytes,
			      uint64_t *out_live_bytes);

#endif
