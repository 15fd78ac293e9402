/* core/log.h -- the shim's own lines: one write(2) each, "mtshim[PID]: LEVEL: text", to stderr or
 * to MT_LOG. stderr is the file that descriptor 2 led to when the process began: nothing is written
 * to another file that has that number by now, to a socket, or to a file or block device that is
 * open for reading too. Any thread may call, at any moment, also inside malloc; not in a signal
 * handler. Takes no lock, allocates nothing, keeps no descriptor (programs close them all and reuse
 * the numbers), keeps errno. Lines longer than 1000 bytes are cut. Reads
 * no settings: core/config.c gives them. */
#ifndef MT_CORE_LOG_H
#define MT_CORE_LOG_H

#include <stdint.h>

#include "sys/attr.h"

enum mt_log_level { MT_LOG_ERROR, MT_LOG_WARN, MT_LOG_INFO, MT_LOG_DEBUG };

/* From now on these say what is written and where: *level is an enum mt_log_level, read at each
 * line; file_pattern is a path in which %p is the process id, "" for stderr. Both live as long as
 * the process. Before the first call: warn, stderr. */
void mt_log_use(const uint64_t *level, const char *file_pattern);

/* A line, with the conversions of sys/format.h. */
void mt_log(enum mt_log_level level, const char *format, ...) MT_PRINTF(2, 3);

/* A line that was asked for (MT_PROFILE=1), whatever the level: "mtshim[PID]: text". */
void mt_log_plain(const char *format, ...) MT_PRINTF(1, 2);

/* Text of an allocator as it is, to stderr, whatever MT_LOG says. */
void mt_log_raw(const char *text);

#endif
