/* signal/signal.h -- the cleanup signal (MT_SIGNAL): wraps the sigaction family for that one
 * signal. Any thread may call unless a comment says otherwise. Owns the addresses of the next
 * functions in line; signal/signal_view.h owns the program's view. Takes the signal lock. */
#ifndef MT_SIGNAL_H
#define MT_SIGNAL_H

#include "signal/signal_view.h"

/* Installs the shim's handler where the program's action is SIG_DFL. Called once, from the
 * constructor, after the settings are read. Does nothing where MT_SIGNAL is none. */
void mt_signal_start(void);

/* Returns the present disposition of the cleanup signal. Asks the kernel, through the next
 * sigaction in line: hold no lock. */
enum mt_signal_disposition mt_signal_disposition(void);

#endif
