/* core/log_stderr.h -- which descriptor a line for stderr goes to. A part of log.c.
 * Any thread, also inside malloc; bare system calls, no lock, no allocation. May change errno. */
#ifndef MT_CORE_LOG_STDERR_H
#define MT_CORE_LOG_STDERR_H

#include <stdbool.h>

/* Remembers what stderr is; called once, by the first call of the process, before any line. A
 * forked child inherits it. Without it any descriptor 2 is stderr. */
void mt_log_init_stderr(void);

/* The calling thread has a descriptor table of its own, without stderr: its lines reach it by way
 * of /proc. */
void mt_log_use_private_fds(void);

/* The descriptor of stderr, as mt_log_init_stderr saw it. -1: descriptor 2 is closed, or another
 * file than at the start, or of a kind that is not written to (see log.h). */
int mt_log_open_stderr(void);

/* fd: an answer of mt_log_open_stderr. Closes it where that has opened it. */
void mt_log_close_stderr(int fd);

/* Whether the calling thread has a seccomp filter, or that cannot be told: then no system call is
 * made that a filter may not know. Read from /proc, since asking the kernel by prctl may itself be
 * forbidden. */
bool mt_log_is_sandboxed(void);

#endif
