/* ctl/process/preload.h -- where the shim lies, and lists as LD_PRELOAD takes them. */
#ifndef MT_CTL_PROCESS_PRELOAD_H
#define MT_CTL_PROCESS_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/output/error.h"

/* Absolute path of libmtshim.so: MTSHIM_LIBRARY, else as mt_install_dir_find does. UNKNOWN:
 * nowhere. INVALID: a path that LD_PRELOAD cannot carry (the loader splits at blanks and colons,
 * and expands $). */
enum mt_err mt_preload_find(char *out, size_t out_bytes, struct mt_why *why);

/* The shim first, then what was there, any other copy of the shim left out. The caller frees. */
char *mt_preload_list(const char *library, const char *existing);

/* Puts the shim first in LD_PRELOAD of this process, for a program that it becomes or starts. Says
 * what is in the way. */
enum mt_exit mt_preload_prepare(void);

/* Whether a file name is that of an allocator that may stand in line. NULL, or its name. */
const char *mt_preload_allocator(const char *path);

#endif
