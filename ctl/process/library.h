/* ctl/process/library.h -- the version of a libmtshim.so, and whether the library that a process
 * runs was overwritten. A library that is replaced by rename stays mapped as it was; one that is
 * written in place changes under the process. */
#ifndef MT_CTL_PROCESS_LIBRARY_H
#define MT_CTL_PROCESS_LIBRARY_H

#include "ctl/process/process.h"

/* Writes the version in the file to *out: "0.1.0" of "@(#)libmtshim.so 0.1.0", as what(1) reads it.
 * Returns false where the file has none. */
bool mt_library_version(const char *path, char *out, size_t out_bytes);

/* Returns whether the file that the process has mapped was written after `woke_ns` (CLOCK_REALTIME)
 * and is still the same file. */
bool mt_library_is_rewritten(const struct mt_process *process, uint64_t woke_ns);

#endif
