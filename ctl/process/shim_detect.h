/* ctl/process/shim_detect.h -- whether a process has an executable mapping of libmtshim.so. */
#ifndef MT_CTL_PROCESS_SHIM_DETECT_H
#define MT_CTL_PROCESS_SHIM_DETECT_H

#include <stdbool.h>

/* `fd`: its /proc/PID/maps, opened. *out_deleted: that library is gone from its place. Looks at the
 * first 20,000 executable mappings of files, or where the kernel cannot be asked for those (before
 * Linux 6.11) at the first 16 MB of the text: a process may have a million, each with a path of 31
 * kB. Waits for the mmap_lock of the process. */
bool mt_shim_detect(int fd, bool *out_deleted);

#endif
