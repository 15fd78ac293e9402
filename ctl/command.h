/* ctl/command.h -- the table of commands and what they share. A command gets its own arguments with "mtctl" as
 * argv[0] (getopt puts it before its complaints), and answers an exit code (enum mt_exit). */
#ifndef MT_CTL_COMMAND_H
#define MT_CTL_COMMAND_H

#include "ctl/error.h"

#define MT_COMMANDS(X)                                                                                           \
	X(run,        "run",        "[options] [--] program...", "start a program under the shim")               \
	X(ps,         "ps",         "[--tree [PID]] [--json]",   "all shimmed processes, as a tree")             \
	X(stat,       "stat",       "PID [options]",             "what a process's memory is doing")             \
	X(trim,       "trim",       "PID | --all | --tree PID",  "give memory back now, and say how much")       \
	X(check,      "check",      "[PID] [--threshold 85]",    "is RAM (or the container's limit) running out") \
	X(round,      "round",      "PID",                       "tell a process that a round has ended")        \
	X(set,        "set",        "PID NAME=VALUE",            "change a setting of a running process")        \
	X(reset_peak, "reset-peak", "PID",                       "start the peaks of live and GPU bytes anew")   \
	X(options,    "options",    "[--json | --markdown]",     "every setting there is")                       \
	X(presets,    "presets",    "[--json]",                  "sets of settings for a role")                  \
	X(sites,      "sites",      "PID [options]",             "who holds the heap: live bytes by stack")      \
	X(doctor,     "doctor",     "[PID]",                     "what is in the way, and what to do")          \
	X(diagnose,   "diagnose",   "PID [--for 60s] [options]", "leak or hoard: what is the matter, and what to do")

#define X(function, name, arguments, help) int mt_command_##function(int argc, char **argv);
MT_COMMANDS(X)
#undef X

/* Prints "usage: mtctl NAME ARGUMENTS", the help of the table, and `details` (may be NULL) to stdout. Answers 0. */
int mt_command_help(const char *name, const char *details);

/* For a command line that makes no sense: the usage line on stderr. Answers MT_EXIT_USAGE. */
int mt_command_misused(const char *name);

#endif
