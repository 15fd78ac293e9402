/* ctl/process/install_dir.h -- finds files that were installed with this mtctl, from the path of
 * mtctl itself, so that an installation may be moved. Only an unusual LIBDIR is compiled in
 * (MT_LIBDIR, else ""). */
#ifndef MT_CTL_PROCESS_INSTALL_DIR_H
#define MT_CTL_PROCESS_INSTALL_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the absolute path of `name` to *out. Looks beside mtctl, and in the subdirectory `below`
 * ("": none) of each library directory. Returns false where the file is in none of them, or
 * /proc/self/exe cannot be read. */
bool mt_install_dir_find(const char *name, const char *below, char *out, size_t out_bytes);

/* Returns the directories that were searched, as text: "beside mtctl, in ../lib or in /opt/lib". */
const char *mt_install_dir_searched(void);

#endif
