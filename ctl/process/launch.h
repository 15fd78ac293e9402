/* ctl/process/launch.h -- runs a program as a child as if it ran in the place of mtctl. The program
 * gets the signals that are sent to mtctl, its standard files, its terminal and its process group,
 * and mtctl ends as the program ends. The kernel stops and continues the whole group (Ctrl-Z).
 *
 * Signals are blocked and received by sigtimedwait(2), so that waiting for a signal is also the
 * clock of the recorder. One thread may call. */
#ifndef MT_CTL_PROCESS_LAUNCH_H
#define MT_CTL_PROCESS_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "ctl/output/error.h"

struct mt_launch {
	pid_t pid; /* 0: no program was started, and a signal ends the wait */
	sigset_t forwarded;
	bool ended; /* without a program: a signal has come */
	int status; /* as of wait(2), once it has ended */
	struct rusage usage;
};

/* Starts the program, found as execvp(3) finds it. Returns MT_EXIT_OK once it runs. Returns
 * MT_EXIT_CANNOT_RUN or MT_EXIT_NOT_FOUND after a message. */
enum mt_exit mt_launch_start(char **argv, struct mt_launch *out);

/* Forwards signals to the program until this time (CLOCK_MONOTONIC, ns) or until the program ends.
 * Returns launch->ended. */
bool mt_launch_wait(struct mt_launch *launch, uint64_t until_ns);

/* Returns the exit code of the program. Ends this process by the same signal where a signal has
 * ended the program. */
int mt_launch_exit(const struct mt_launch *launch);

#endif
