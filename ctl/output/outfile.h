/* ctl/output/outfile.h -- opens files that the user has named: for writing (-o FILE), or to create
 * once and read later (--token-file). In a directory that others may write, another user may have
 * put a link there first, to make mtctl overwrite a file or reveal what it writes. The kernel
 * prevents a part of that if fs.protected_symlinks and the like are on, which they often are not
 * in containers. outfile.c has the rules. One thread may call. */
#ifndef MT_CTL_OUTPUT_OUTFILE_H
#define MT_CTL_OUTPUT_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "ctl/output/error.h"

/* Opens the file for writing, empty, close-on-exec; creates it with this mode (less the umask)
 * if it does not exist. Returns MT_ERR_FOREIGN, without emptying it, if: the path contains a
 * symbolic link of another user; the file belongs to another user in a directory that all may
 * write; or it has more than one name in such a directory or in one of another user. Links of the
 * caller and of root are followed: /dev/stdout, last.json -> run7.json. In a directory of another
 * user only regular files are opened: a FIFO waits for its reader. Returns MT_ERR_SYSTEM, without a
 * wait, if another process has a lease on the file. */
enum mt_err mt_outfile_open(const char *path, mode_t mode, int *out_fd,
			    struct mt_error_reason *why);

/* The same as a stream; "-" is standard output. mt_outfile_finish flushes and closes it (standard
 * output stays open). If not all was written it removes the file, a part of which is of no use,
 * and returns MT_ERR_SYSTEM with the reason. */
enum mt_err mt_outfile_stream(const char *path, mode_t mode, FILE **out,
			      struct mt_error_reason *why);
enum mt_err mt_outfile_finish(FILE *file, const char *path, struct mt_error_reason *why);

/* Removes a regular file that is open as fd, unless the path leads elsewhere by now, as through a
 * link. Keeps errno. */
void mt_outfile_remove(int fd, const char *path);

/* Writes the bytes. Returns how many are written; fewer: errno says why. */
size_t mt_outfile_write(int fd, const void *bytes, size_t count);

/* Opens the file for reading by the same rules, without waiting for the writer of a FIFO. If it
 * does not exist, creates it with this mode and this text, and sets *out_made; the descriptor has
 * no use then. Never creates the target of a link. A new file that cannot be written whole is
 * removed: MT_ERR_SYSTEM. */
enum mt_err mt_outfile_read_or_make(const char *path, mode_t mode, const char *text, bool *out_made,
				    int *out_fd, struct mt_error_reason *why);

#endif
