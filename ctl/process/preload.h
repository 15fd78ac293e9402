/* ctl/process/preload.h -- the path of libmtshim.so, and the value of LD_PRELOAD. One thread may
 * call. */
#ifndef MT_CTL_PROCESS_PRELOAD_H
#define MT_CTL_PROCESS_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/output/error.h"

/* Writes the absolute path of libmtshim.so to *out: MTSHIM_LIBRARY, else the file that
 * mt_install_dir_find finds. Returns MT_ERR_UNKNOWN where there is none, and MT_ERR_INVALID for a
 * path that LD_PRELOAD cannot hold: the loader splits at blanks and colons, and expands $. */
enum mt_err mt_preload_find(char *out, size_t out_bytes, struct mt_error_reason *why);

/* Returns a value of LD_PRELOAD: the library, then the entries of `existing` (may be NULL) without
 * any other copy of the shim. The caller frees. */
char *mt_preload_list(const char *library, const char *existing);

/* Puts the shim first in LD_PRELOAD of this process, for a program that it executes. Returns
 * MT_EXIT_OK, or an exit code after a message. */
enum mt_exit mt_preload_prepare(void);

/* Returns the name of the allocator that a file name stands for ("jemalloc" of libjemalloc.so.2),
 * or NULL. */
const char *mt_preload_allocator(const char *path);

#endif
