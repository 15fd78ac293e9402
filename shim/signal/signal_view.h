/* signal/signal_view.h -- keeps the action that the program set for the cleanup signal apart from
 * the action that the kernel holds. Owns the slots with the program's actions. Any thread, any
 * signal handler and a vfork child may call. Takes the signal lock (rank signal), with all signals
 * blocked. Never allocates. */
#ifndef MT_SIGNAL_SIGNAL_VIEW_H
#define MT_SIGNAL_SIGNAL_VIEW_H

#include <signal.h>
#include <stdbool.h>

/* The disposition of the cleanup signal. The values are those of the stats field
 * signal_disposition. */
enum mt_signal_disposition {
	MT_DISPOSITION_NONE,    /* there is no cleanup signal */
	MT_DISPOSITION_OURS,    /* the shim's handler is installed */
	MT_DISPOSITION_SHARED,  /* MT_SIGNAL is set: the shim's handler calls the program's */
	MT_DISPOSITION_LOST,    /* a raw system call replaced the shim's handler */
	MT_DISPOSITION_IGNORED, /* the program ignores the signal */
	MT_DISPOSITION_PROGRAM  /* the program's handler is installed, and the shim's is not */
};

/* Returns the cleanup signal; 0 before mt_signal_view_open and after mt_signal_view_close. */
int mt_signal_view_number(void);

/* sigaction(2) as the program sees it. For another signal it calls the next sigaction in line. */
int mt_signal_view_change(int sig, const struct sigaction *act, struct sigaction *old);

/* Calls the next sigaction in line, which sees the kernel's action. Defined in signal.c. */
int mt_signal_next_change(int sig, const struct sigaction *act, struct sigaction *old);

/* Makes sig the cleanup signal, and takes the kernel's action for the program's. shared: a signal
 * to a handler of the program requests a cleanup too. */
void mt_signal_view_open(int sig, bool shared);

/* Gives the signal back to the program: the kernel gets the program's action. */
void mt_signal_view_close(int sig);

/* Takes the slots over in a forked child; the installed action stays. */
void mt_signal_view_fork_child(void);

/* The part of mt_signal_disposition that needs the slots. */
enum mt_signal_disposition mt_signal_view_disposition(int sig);

#endif
