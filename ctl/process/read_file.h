/* ctl/process/read_file.h -- reads small files whole: files of /proc and of cgroups, and files that
 * a user has named. Any thread may call. */
#ifndef MT_CTL_PROCESS_READ_FILE_H
#define MT_CTL_PROCESS_READ_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens a regular file for reading, close-on-exec. Returns -1 with errno, EINVAL for any other kind
 * of file. The kind is checked before the open: to open a FIFO waits for its writer, and to open a
 * device may have an effect. Files of /proc and of cgroups are regular files. */
int mt_read_file_open(const char *path);

/* Returns the content of a regular file, ended by a NUL that *length (may be NULL) does not count.
 * Returns NULL with errno, EFBIG if the file is longer than 64 MB. The caller frees. */
char *mt_read_file(const char *path, size_t *length);
/* The same, with EFBIG if the file is longer than max_bytes. */
char *mt_read_file_max(const char *path, size_t max_bytes, size_t *length);
/* The same for the first `bytes` bytes of a file of any length. */
char *mt_read_file_first(const char *path, size_t bytes, size_t *length);
/* mt_read_file for a file of any kind, such as a FIFO, by a name that the user has given. */
char *mt_read_file_stream(const char *path, size_t *length);

/* Reads `bytes` bytes at this offset of an open file, fewer at its end. Returns how many. */
size_t mt_read_file_at(int fd, void *out, size_t bytes, size_t offset);

/* Finds the number after "key" at the start of a line, as in "VmRSS: 123 kB" or "inactive_file
 * 4096". Returns false if there is no such line. Applies no unit. */
bool mt_read_file_number(const char *text, const char *key, uint64_t *out);

/* ---- foreign path ---- */

/* Opens a directory by a path that another process has chosen (its
 * MT_DIR). Such a path may lead through /proc, where a lookup can wait for a process: map_files
 * takes its mmap_lock. So the path is walked name by name, and no name is looked up in a proc file
 * system. Any thread may call. */

/* Opens the directory for reading, close-on-exec. start: a descriptor of the directory if a
 * relative path begins. It is always closed; -1 fails, with errno unchanged. is_root: start is also
 * the root of the path, so that "/" leads there and ".." does not lead above it. Symbolic links are
 * followed, except as the last name. Returns -1 with errno: EXDEV if the path leads through a
 * proc file system; ELOOP for a link as the last name, more than 40 links or 4,000 names; else the
 * errno of openat(2). */
int mt_foreign_path_open(int start, bool is_root, const char *path);

/* Returns whether names in this directory are looked up in a proc file system. Also true if
 * fstatfs(2) fails. */
bool mt_foreign_path_is_proc(int fd);

#endif
