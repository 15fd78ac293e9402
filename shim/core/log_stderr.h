/* core/log_stderr.h -- finds the descriptor for a line on stderr, for core/log.c. Owns the identity
 * of the file that was descriptor 2 at the start. Any thread may call, also inside malloc. Takes no
 * lock, never allocates. May change errno. */
#ifndef MT_CORE_LOG_STDERR_H
#define MT_CORE_LOG_STDERR_H

#include <stdbool.h>

/* Remembers which file descriptor 2 is. Called once, before the first line; a forked child inherits
 * it. Before the call any file on descriptor 2 is stderr. */
void mt_log_init_stderr(void);

/* Tells that the calling thread has its own descriptor table, without stderr: its lines go through
 * /proc. */
void mt_log_use_private_fds(void);

/* Returns the descriptor of stderr. Returns -1 where descriptor 2 is closed, is another file than
 * at the start, or is of a kind that log.h excludes. */
int mt_log_open_stderr(void);

/* Closes a descriptor that mt_log_open_stderr opened. fd: its result. */
void mt_log_close_stderr(int fd);

/* Returns whether the calling thread has, or may have, a seccomp filter: then avoid system calls
 * that the filter may not know. Reads /proc, since the filter may forbid prctl. */
bool mt_log_is_sandboxed(void);

#endif
