/* signal/signal_view.h -- the program's view of the cleanup signal, between signal.c (names and
 * meanings of libc's functions) and the kernel. Any thread, any handler, and a vfork child may
 * call; allocates nothing. */
#ifndef MT_SIGNAL_SIGNAL_VIEW_H
#define MT_SIGNAL_SIGNAL_VIEW_H

#include <signal.h>
#include <stdbool.h>

/* The disposition of the signal, for stats and doctor: 0 no signal wanted, 1 our handler stands, 2 MT_SIGNAL is
 * set and we pass on to the program's own handler, 3 lost (the action was changed by a raw system
 * call), 4 the program ignores the signal, 5 the program's own handler stands and the signal is the
 * program's alone. Asks the kernel. Any thread. */
enum mt_signal_disposition {
	MT_DISPOSITION_NONE,
	MT_DISPOSITION_OURS,
	MT_DISPOSITION_SHARED,
	MT_DISPOSITION_LOST,
	MT_DISPOSITION_IGNORED,
	MT_DISPOSITION_PROGRAM
};

/* The cleanup signal; 0 before mt_signal_view_open, when there is none, and after
 * mt_signal_view_close. */
int mt_signal_view_number(void);

/* sigaction() as the program means it. For any other signal it is the next sigaction in line. */
int mt_signal_view_change(int sig, const struct sigaction *act, struct sigaction *old);

/* The next sigaction in line, which says what the kernel really holds. In signal.c. */
int mt_signal_next_change(int sig, const struct sigaction *act, struct sigaction *old);

/* From now on `sig` is the cleanup signal; what the kernel holds is taken as the program's wish.
 * shared: a signal to a handler of the program's asks for a cleanup, too. */
void mt_signal_view_open(int sig, bool shared);

/* Gives the signal back to the program, as if we had never been. */
void mt_signal_view_close(int sig);

/* In a forked child: nothing is inherited but the handlers, which stay right. */
void mt_signal_view_fork_child(void);

/* mt_signal_disposition, for a signal that nobody else claims. */
enum mt_signal_disposition mt_signal_view_disposition(int sig);

#endif
