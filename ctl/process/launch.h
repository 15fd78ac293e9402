/* ctl/process/launch.h -- a program that runs below us as if it ran in our place: it gets the
 * signals that we are sent, our standard files, our terminal and our process group, and we end as
 * it ends. What stops and continues a job (Ctrl-Z) is left to the kernel, which does it to the
 * whole group. Signals are blocked here and waited for with a time, so that waiting for them is the
 * clock of whoever records. */
#ifndef MT_CTL_PROCESS_LAUNCH_H
#define MT_CTL_PROCESS_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "ctl/output/error.h"

struct mt_launch {
	pid_t pid; /* 0: nothing was started, and a signal is for us */
	sigset_t forwarded;
	bool ended; /* or, without a program, asked to end */
	int status; /* as of wait(2), once it has ended */
	struct rusage usage;
};

/* Looks the program up as execvp does, and comes back when it runs. CANNOT_RUN and NOT_FOUND have
 * been said. */
enum mt_exit mt_launch_start(char **argv, struct mt_launch *out);

/* Hands signals on until this time (CLOCK_MONOTONIC), or until the program ends. Answers `ended`.
 */
bool mt_launch_wait(struct mt_launch *launch, uint64_t until_ns);

/* The exit code of the program; by a signal that ended it this process is ended, too. */
int mt_launch_exit(const struct mt_launch *launch);

#endif
