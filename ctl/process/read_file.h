/* ctl/process/read_file.h -- reads small files whole: those of /proc and of cgroups, and files that
 * a user has named. */
#ifndef MT_CTL_PROCESS_READ_FILE_H
#define MT_CTL_PROCESS_READ_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens a regular file to be read, close-on-exec; -1 with errno set, EINVAL for what is none. What
 * lies under a name that another user chose may be anything: it is looked at before it is opened,
 * which of a pipe is to wait for its writer, and of a device an act. Files of /proc and of cgroups
 * are regular ones. */
int mt_read_file_open(const char *path);

/* Reads a file whole, as files of /proc are (no size, any length), ended by a NUL that *length does
 * not count. NULL with errno set, EFBIG where it is longer than 64 MB, or than max_bytes. The
 * caller frees. _file and _most: regular files alone (a process says where its cgroup is). _stream:
 * of any kind, for a name that the user has typed. */
char *mt_read_file(const char *path, size_t *length);
char *mt_read_file_max(const char *path, size_t max_bytes, size_t *length);
/* no more than so many, and no error where more are there */
char *mt_read_file_first(const char *path, size_t bytes, size_t *length);
char *mt_read_file_stream(const char *path, size_t *length);

/* Reads `bytes` bytes at this place of an open file, less at its end. Returns how many. */
size_t mt_read_file_at(int fd, void *out, size_t bytes, size_t offset);

/* The number after "key" at the start of a line, as in "VmRSS:    123 kB" or "inactive_file 4096";
 *   false: no such
 * line. No unit is applied. */
bool mt_read_file_number(const char *text, const char *key, uint64_t *out);

#endif
