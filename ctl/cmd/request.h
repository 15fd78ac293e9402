/* ctl/cmd/request.h -- commands that take one PID, ask for one thing and wait for the answer:
 * round, reset-peak. */
#ifndef MT_CTL_SIMPLE_H
#define MT_CTL_SIMPLE_H

#include "ctl/process/target.h"

struct mt_simple {
	const char *command;
	struct mt_request request;
	struct mt_process process; /* filled in */
	struct mt_stats_head head; /* what the process says after it; only where `answered` */
	bool answered;
};

/* Reads "PID [--timeout=S]", asks, says what went wrong. Answers the exit code; MT_EXIT_NOTHING:
 * asleep. */
int mt_simple_ask(struct mt_simple *ask, int argc, char **argv);

/* Asks for fresh figures and waits a second for them at most: those that are some seconds old are
 * better than a long wait. false: there was no answer. */
bool mt_simple_refresh(const struct mt_process *process);

/* Seconds from the command line, with a fraction if one likes, up to a day. Says what is wrong. */
bool mt_simple_parse_seconds(const char *text, uint64_t *out_ms);

#endif
