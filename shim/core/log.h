/* core/log.h -- writes the shim's log lines, one write(2) each, to stderr or to the file MT_LOG:
 * "mtshim[PID] 2026-11-26T06:31:12.345Z: LEVEL: text". The time is UTC: for local time libc reads
 * files and takes a lock. stderr is the file that was descriptor 2 at the start of the process.
 * Never writes to another file that has this number later, to a socket, or to a file or block
 * device that is also open for reading. Any thread may call, also inside malloc; not in a signal
 * handler. Takes no lock, allocates nothing, keeps no descriptor, keeps errno. Cuts lines at 1000
 * bytes. core/config.c sets level and file; this module reads no settings. */
#ifndef MT_CORE_LOG_H
#define MT_CORE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "sys/attr.h"

enum mt_log_level { MT_LOG_ERROR, MT_LOG_WARN, MT_LOG_INFO, MT_LOG_DEBUG };

/* Sets what is written and where. level: points to an enum mt_log_level that each line reads.
 * file_pattern: a path in which %p is the process id; "": stderr. Both must live as long as the
 * process. Before the first call: level warn, stderr. */
void mt_log_use(const uint64_t *level, const char *file_pattern);

/* Remembers which file descriptor 2 is. Called once, before the first line; a forked child inherits
 * it. Before the call any file on descriptor 2 is stderr. */
void mt_log_init_stderr(void);

/* Tells that the calling thread has its own descriptor table, without stderr: its lines go through
 * /proc. */
void mt_log_use_private_fds(void);

/* Writes a line if level is enabled. format: conversions of sys/format.h. */
void mt_log(enum mt_log_level level, const char *format, ...) MT_PRINTF(2, 3);

/* Writes a line at any level, without the level's name: for output that a setting requests
 * (MT_PROFILE=1). */
void mt_log_plain(const char *format, ...) MT_PRINTF(1, 2);

/* Writes what every line begins with, up to the blank before the level: up to MT_LOG_PREFIX_BYTES
 * with the NUL. Returns its length. */
#define MT_LOG_PREFIX_BYTES 64u
size_t mt_log_prefix(char *out);

/* Writes text to stderr unchanged, even with MT_LOG set: messages of the allocator. */
void mt_log_raw(const char *text);

#endif
