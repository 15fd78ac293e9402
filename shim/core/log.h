/* core/log.h -- the shim's own lines: one write(2) each, "mtshim[PID]: LEVEL: text", to stderr or
 * to MT_LOG. stderr is the file that descriptor 2 led to when the process began: nothing is written
 * to another file that has that number by now, to a socket, or to a file or block device that is
 * open for reading too. Any thread may call, at any moment, also inside malloc; not in a signal
 * handler. Takes no lock, allocates nothing, keeps no descriptor (programs close them all and reuse
 * the numbers), keeps errno. Lines longer than 1000 bytes are cut. Before mt_config_read has run
 * the level is warn and lines go to stderr. */
#ifndef MT_CORE_LOG_H
#define MT_CORE_LOG_H

#include <stddef.h>

#include "sys/attr.h"
#include "core/config.h"

/* printf-like, with our own small formatter (libc's may allocate): %s %d %u %x %c %%, l ll z
 * modifiers, %.*s, and widths are not understood. */
void mt_log(enum mt_log_level level, const char *format, ...) MT_PRINTF(2, 3);

/* A line that was asked for (MT_PROFILE=1), whatever the level: "mtshim[PID]: text". */
void mt_log_plain(const char *format, ...) MT_PRINTF(1, 2);

/* Text of an allocator as it is, to stderr, whatever MT_LOG says. */
void mt_log_raw(const char *text);

/* Remembers what stderr is; called once, by the first call of the process, before any line. A
 * forked child inherits it. Without it any descriptor 2 is stderr. */
void mt_log_learn_stderr(void);

/* The calling thread has a descriptor table of its own, without stderr: its lines reach it by way
 * of /proc. */
void mt_log_stand_apart(void);

/* The same formatter into a buffer; always ended by NUL; answers the length written, without it. */
size_t mt_format(char *out, size_t out_bytes, const char *format, ...) MT_PRINTF(3, 4);

#endif
