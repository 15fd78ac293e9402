/* ctl/output/outfile.h -- the files that somebody has named: to be written (-o FILE), or made and
 * read again (--token-file). Another user may have been there first: with a link to a file that is
 * to be lost or to be taken for one's own, or with a file to read what goes into it. The kernel
 * refuses some of that where fs.protected_symlinks and its like are on; in containers they often
 * are not. sys/path_walk.h has the rules. */
#ifndef MT_CTL_OUTPUT_OUTFILE_H
#define MT_CTL_OUTPUT_OUTFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "ctl/output/error.h"

/* Opens it for writing, empty, close-on-exec; made with this mode (less the umask) where there is
 * none. FOREIGN: a link of another user's anywhere in the path; in a folder of everybody's, a thing
 * of another user's; there or in a folder of another user's, a file with more than one name. It is
 * left alone, and not emptied. Links of one's own and of root's are followed: /dev/stdout,
 * last.json -> run7.json. In another user's folder only regular files are written: a FIFO waits for
 * its reader. SYSTEM, without a wait, where another process has a lease on the file. */
enum mt_err mt_outfile_open(const char *path, mode_t mode, int *out_fd, struct mt_why *why);

/* By the same rules, to be read, without waiting for the writer of a FIFO. Where there is none it
 * is made, with this mode and this text in it, and *out_made tells so; its descriptor is of no
 * further use. What a link leads to is not made. A new file that cannot be written whole is removed
 * again: SYSTEM. */
enum mt_err mt_outfile_read_or_make(const char *path, mode_t mode, const char *text, bool *out_made,
				    int *out_fd, struct mt_why *why);

#endif
