/* ctl/process/install_dir.h -- where the files lie that were installed with this mtctl: found from
 * where mtctl itself is, so that a tree may be moved. Only an unusual LIBDIR is compiled in
 * (MT_LIBDIR; else it is ""). */
#ifndef MT_CTL_PROCESS_INSTALL_DIR_H
#define MT_CTL_PROCESS_INSTALL_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* The absolute path of `name`, which lies beside mtctl (as it is built), or in the folder `below`
 * of one of the library folders; "" is those themselves. false: it is nowhere, or /proc does not
 * tell where mtctl is. */
bool mt_install_dir_find(const char *name, const char *below, char *out, size_t out_bytes);

/* The places that were looked at, for a person: "beside mtctl, in ../lib or in /opt/lib". */
const char *mt_install_dir_searched(void);

#endif
