/* signal/signal.h -- the cleanup signal (MT_SIGNAL), and the program's view of it. See signal.c for
 * the rules. */
#ifndef MT_SIGNAL_H
#define MT_SIGNAL_H

#include "signal/signal_view.h"

/* Puts our handler into the kernel where the program's view of the signal is SIG_DFL. Called once,
 * from the constructor, after the settings are read; does nothing when MT_SIGNAL is none. */
void mt_signal_start(void);

/* How the signal is dispositioned now. Asks the kernel. Any thread. */
enum mt_signal_disposition mt_signal_disposition(void);

#endif
