/* signal/signal.h -- the cleanup signal (MT_SIGNAL), and the program's view of it. See signal.c for
 * the rules. */
#ifndef MT_SIGNAL_H
#define MT_SIGNAL_H

#include <stdbool.h>

/* Puts our handler into the kernel where the program's view of the signal is SIG_DFL. Called once,
 * from the constructor, after the settings are read; does nothing when MT_SIGNAL is none. */
void mt_signal_start(void);

/* In a forked child: nothing is inherited but the handlers, which stay right. */
void mt_signal_fork_child(void);

/* The door's state, for stats and doctor: 0 no signal wanted, 1 our handler stands, 2 MT_SIGNAL is
 * set and we pass on to the program's own handler, 3 lost (the action was changed by a raw system
 * call), 4 the program ignores the signal, 5 the program's own handler stands and the signal is the
 * program's alone. Asks the kernel. Any thread. */
enum mt_signal_door {
	MT_DOOR_NONE,
	MT_DOOR_OURS,
	MT_DOOR_PASSING,
	MT_DOOR_LOST,
	MT_DOOR_IGNORED,
	MT_DOOR_PROGRAM
};
enum mt_signal_door mt_signal_door(void);

#endif
