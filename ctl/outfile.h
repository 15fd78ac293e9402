/* ctl/outfile.h -- the file that somebody has named to be written (-o FILE). In a folder where anybody may make files (/tmp)
 * another user may have been there first: with a link to a file that is to be lost, or with a file of his own, to read what
 * goes into it. The kernel refuses that where fs.protected_symlinks and its like are on; in containers they often are not. */
#ifndef MT_CTL_OUTFILE_H
#define MT_CTL_OUTFILE_H

#include <sys/types.h>

#include "ctl/error.h"

/* Opens it for writing, empty, close-on-exec; made with this mode (less the umask) where there is none. FOREIGN: in a folder of
 * everybody's, and a link or thing of another user's, or a file with more than one name; it is left alone. Our own links, and
 * what lies in a folder that is not everybody's, are followed as ever: /dev/stdout, a FIFO, last.json -> run7.json. */
enum mt_err mt_outfile_open(const char *path, mode_t mode, int *out_fd, struct mt_why *why);

#endif
