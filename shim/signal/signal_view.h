/* signal/signal_view.h -- the program's view of the cleanup signal, between signal.c (names and
 * meanings of libc's functions) and the kernel. Any thread, any handler, and a vfork child may
 * call; allocates nothing. */
#ifndef MT_SIGNAL_SIGNAL_VIEW_H
#define MT_SIGNAL_SIGNAL_VIEW_H

#include <signal.h>
#include <stdbool.h>

#include "signal/signal.h"

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

/* mt_signal_door, for a signal that nobody else claims. */
enum mt_signal_door mt_signal_view_door(int sig);

#endif
