/* base/log_stderr.h -- which descriptor a line for stderr goes to. A part of log.c.
 * Any thread, also inside malloc; bare system calls, no lock, no allocation. May change errno. */
#ifndef MT_LOG_STDERR_H
#define MT_LOG_STDERR_H

/* The descriptor of stderr, as mt_log_learn_stderr saw it. -1: descriptor 2 is closed, or another file than at the start, or of a
 * kind that is not written to (see log.h). */
int mt_log_open_stderr(void);

/* fd: an answer of mt_log_open_stderr. Closes it where that has opened it. */
void mt_log_close_stderr(int fd);

#endif
