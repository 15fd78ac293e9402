/* signals.h -- what the rows of signals_table.c share: printing what the program sees of a signal,
 * in words that do not change from run to run, so that two transcripts can be compared as text. */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>

/* libc still has them all; that some are called obsolete is why few test them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

extern sighandler_t bsd_signal(int sig, sighandler_t handler);
extern sighandler_t sysv_signal(int sig, sighandler_t handler);
extern sighandler_t __sysv_signal(int sig, sighandler_t handler);
extern int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);

struct row {
	const char *name;
	void (*play)(int sig);
};

/* One line to stdout by one write: safe in handlers and in vfork children. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The program's view of the signal as sigaction tells it. */
void view(int sig);

/* The flags of an action; 0 for SIG_DFL, where they have no meaning. */
int flags_of(const struct sigaction *act);

/* "default", "ignore", "hold", "error", "A", "B", "info", or "stranger". */
const char *name_of(sighandler_t handler);

/* Handlers that say what they were called with. */
void handler_a(int sig);
void handler_b(int sig);
void handler_info(int sig, siginfo_t *info, void *context);

extern const struct row rows_libc[], rows_life[], rows_survive[];

#endif
