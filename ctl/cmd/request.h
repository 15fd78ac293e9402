/* ctl/cmd/request.h -- commands that take one PID, ask for one thing and wait for the answer:
 * round, reset-peak. */
#ifndef MT_CTL_CMD_REQUEST_H
#define MT_CTL_CMD_REQUEST_H

#include "ctl/process/target.h"

struct mt_request_command {
	const char *command;
	struct mt_request request;
	struct mt_process process; /* filled in */
	struct mt_stats_head head; /* what the process says after it; only where `answered` */
	bool answered;
};

/* Reads "PID [--timeout=S]", asks, says what went wrong. Answers the exit code; MT_EXIT_NOTHING:
 * asleep. */
int mt_request_command_run(struct mt_request_command *ask, int argc, char **argv);

#endif
