/* ctl/process/preload.h -- the path of libmtshim.so, and the value of LD_PRELOAD. One thread may
 * call. */
#ifndef MT_CTL_PROCESS_PRELOAD_H
#define MT_CTL_PROCESS_PRELOAD_H

#include "ctl/output/error.h"
#include "ctl/process/process.h"

/* Writes the absolute path of libmtshim.so to *out: MTSHIM_LIBRARY, else the file that
 * mt_install_dir_find finds. Returns MT_ERR_UNKNOWN if there is none, and MT_ERR_INVALID for a
 * path that LD_PRELOAD cannot hold: the loader splits at blanks and colons, and expands $. */
enum mt_err mt_preload_find(char *out, size_t out_bytes, struct mt_error_reason *why);

/* Puts the shim first in LD_PRELOAD of this process, for a program that it executes, and says where
 * the shim cannot reach that program. Returns MT_EXIT_OK, or an exit code after a message. */
enum mt_exit mt_preload_prepare(const char *program);

/* Returns whether an entry of LD_PRELOAD is the shim, by its name or by its file's head. */
bool mt_preload_is_shim(const char *entry);

/* Returns the name of the allocator that a file name stands for ("jemalloc" of libjemalloc.so.2),
 * or NULL. */
const char *mt_preload_allocator(const char *path);

/* The version of a libmtshim.so, its mapping in a process, and whether that file was overwritten. A
 * library that is replaced by rename stays mapped as it was; one that is written in place changes
 * under the process. */

/* Returns whether an executable mapping of the process is of the library: by its file's name, also
 * of one that was replaced, else by the version in the head of what is mapped, whatever its name.
 * May wait for the file system: for a child (ctl/process/watchdog.h). *out_deleted: the file was
 * replaced or removed. */
struct mt_maps_line;
bool mt_library_is_at(pid_t pid, const struct mt_maps_line *mapping, bool *out_deleted);

/* Writes the version in the file to *out: "0.1.0" of "@(#)libmtshim.so 0.1.0", as what(1) reads it.
 * Returns false if the file has none. */
bool mt_library_version(const char *path, char *out, size_t out_bytes);

/* Returns whether the file that the process has mapped was written after `woke_ns` (CLOCK_REALTIME)
 * and is still the same file. */
bool mt_library_is_rewritten(const struct mt_process *process, uint64_t woke_ns);

/* ---- install dir ---- */

/* Finds files that were installed with this mtctl, from the path of
 * mtctl itself, so that an installation may be moved. Only an unusual LIBDIR is compiled in
 * (MT_LIBDIR, else ""). */

/* Writes the absolute path of `name` to *out. Looks beside mtctl, and in the subdirectory `below`
 * ("": none) of each library directory. Returns false if the file is in none of them, or
 * /proc/self/exe cannot be read. */
bool mt_install_dir_find(const char *name, const char *below, char *out, size_t out_bytes);

#endif
