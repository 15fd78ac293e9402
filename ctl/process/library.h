/* ctl/process/library.h -- the files called libmtshim.so: which version one is, and what became of
 * the one that a process runs. A library is replaced by rename, so that processes keep the old one;
 * one that is written in place changes under them. */
#ifndef MT_CTL_PROCESS_LIBRARY_H
#define MT_CTL_PROCESS_LIBRARY_H

#include "ctl/process/process.h"

/* The version that the file says it is ("@(#)libmtshim.so 0.1.0", as what(1) reads it). false: it
 * says none. */
bool mt_library_version(const char *path, char *out, size_t out_bytes);

/* Whether the file that the process has mapped was written after `woke_ns` (CLOCK_REALTIME), and
 * not replaced. */
bool mt_library_is_rewritten(const struct mt_process *process, uint64_t woke_ns);

#endif
