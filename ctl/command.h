/* ctl/command.h -- the table of commands and what they share. A command gets its own arguments with
 * "mtctl" as argv[0] (getopt puts it before its complaints), and answers an exit code (enum
 * mt_exit). */
#ifndef MT_CTL_COMMAND_H
#define MT_CTL_COMMAND_H

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "ctl/output/error.h"

#define MT_COMMANDS(X)                                                                             \
	X(run, "run", "[options] [--] program...", "start a program under the shim")               \
	X(record, "record", "-o FILE [PID | -- program...]",                                       \
	  "what it holds over time, into a file")                                                  \
	X(ps, "ps", "[--tree [PID]] [options]", "all shimmed processes, as a tree")                \
	X(stat, "stat", "PID [options]", "what a process's memory is doing")                       \
	X(trim, "trim", "PID | --all | --all-users | --tree PID",                                  \
	  "give memory back now, and say how much")                                                \
	X(check, "check", "[PID] [--threshold 85]",                                                \
	  "is RAM (or the container's limit) running out")                                         \
	X(round, "round", "PID", "tell a process that a round has ended")                          \
	X(set, "set", "PID NAME=VALUE", "change a setting of a running process")                   \
	X(reset_peak, "reset-peak", "PID", "start the peaks of live and GPU bytes again")          \
	X(options, "options", "[--json | --markdown]", "every setting there is")                   \
	X(presets, "presets", "[--json]", "sets of settings for a role")                           \
	X(sites, "sites", "PID [options]", "who holds the heap: live bytes by stack")              \
	X(snapshot, "snapshot", "PID [options]", "the blocks of the GPU pool: size, state, age")   \
	X(doctor, "doctor", "[PID]", "what is in the way, and what to do")                         \
	X(diagnose, "diagnose", "PID [--for 60s] [options]",                                       \
	  "leak or hoard: what is the matter, and what to do")                                     \
	X(advise, "advise", "PID [--json]", "settings that would suit a process, and why")         \
	X(budget, "budget", "--params N [options]", "what a model takes of a GPU's memory")        \
	X(fit, "fit", "--model-mb MB [options]", "how many clients a GPU can serve at a time")     \
	X(export, "export", "[--textfile DIR] [options]", "all figures as metrics, for Prometheus")

/* Commands that need a library which a server may not have: programs of their own, so that the rest
 * of mtctl runs there. `mtctl NAME` becomes PROGRAM, which lies beside mtctl or in LIBDIR/mtshim;
 * it gets NAME as argv[1], and the arguments after it. */
#define MT_SUBCOMMANDS(X)                                                                          \
	X("top", "[options]", "live view of all shimmed processes", "mtctl-top")                   \
	X("plot", "PID | FILE -o x.svg|png|pdf", "memory over time, as a picture", "mtctl-plot")   \
	X("compare", "FILE FILE... -o x.svg|png|pdf", "recorded runs in one picture",              \
	  "mtctl-plot")                                                                            \
	X("serve", "[--listen 127.0.0.1:9477]", "a live page, Prometheus metrics, JSON",           \
	  "mtctl-serve")

struct mt_command {
	const char *name, *arguments, *help;
	const char *program; /* of an external one; NULL: this very program */
};

/* All commands, those of this program first, in the order of the tables. */
const struct mt_command *mt_command_list(size_t *count);
const struct mt_command *mt_command_find(const char *name);

#define X(function, name, arguments, help) int mt_command_##function(int argc, char **argv);
MT_COMMANDS(X)
#undef X

/* Replaces this process by the command's program; argv[0] stands for the command. Answers only when
 * that fails, having said so. */
int mt_subcommand_exec(const struct mt_command *command, char **argv);

/* The main of such a program: looks the command up, and hands it argv with "mtctl" as argv[0].
 * `commands` ends with a NULL name. */
struct mt_subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
};
int mt_subcommand_main(const struct mt_subcommand *commands, int argc, char **argv);

/* What main returns: output that did not reach its reader (a full disk, a closed pipe) is a
 * failure, whatever the command says. */
int mt_command_finish(int code);

/* Prints "usage: mtctl NAME ARGUMENTS", the help of the table, and `details` (may be NULL) to
 * stdout. Answers 0. */
int mt_command_help(const char *name, const char *details);

/* For a command line that makes no sense: the usage line on stderr. Answers MT_EXIT_USAGE. */
int mt_command_misused(const char *name);

/* As getopt_long(3), but an option must be written in full: an abbreviation, as of --all-users, is
 * said on stderr and is '?'. */
int mt_command_option(int argc, char **argv, const char *letters, const struct option *options);

/* An option of a command: "--name", and with a letter also "-l". */
struct mt_option {
	const char *name;
	void *target; /* what the option fills in */
	/* Reads the option's value into the target; text is NULL where the value was left out.
	 * Returns false for a value that is not valid, after a message. NULL: a switch without a
	 * value, which sets the bool at target. */
	bool (*take)(const struct mt_option *option, const char *text);
	char letter;         /* 0: none */
	bool value_optional; /* the value may be left out */
	double min, max;     /* for `take` */
};

/* Values of `take`: a text (target: const char *), seconds (target: uint64_t, milliseconds). */
bool mt_option_text(const struct mt_option *option, const char *text);
bool mt_option_seconds(const struct mt_option *option, const char *text);

#define MT_OPERANDS_PROGRAM (-1)

/* What a command accepts. */
struct mt_command_line {
	const char *command;
	const char *help;                /* NULL: none but the table's line */
	void (*print_more)(void);        /* what --help prints after `help`; NULL: nothing */
	const struct mt_option *options; /* the last one has no name */
	int operands_min, operands_max;  /* MT_OPERANDS_PROGRAM: the first one ends the options */
};

/* Reads the options. Returns true where the command is to run: its operands begin at argv[optind],
 * and argv[argc] is NULL. Returns false where it has ended, with the exit code in *out_code:
 * --help, or a wrong use, which is on stderr. */
bool mt_command_line_read(const struct mt_command_line *line, int argc, char **argv, int *out_code);

/* SIGINT, SIGTERM and SIGHUP, blocked for sigtimedwait or signalfd; without those that the caller
 * has made us ignore (nohup), which would else end us: a signal that is blocked is not thrown away.
 */
sigset_t mt_command_block_endings(void);

#endif
