/* ctl/command.h -- the table of commands, and what all commands share. A command gets its own
 * arguments, with "mtctl" as argv[0] (getopt(3) prints it before its messages), and returns an exit
 * code (enum mt_exit). One thread may call. */
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
	  "record memory over time into a file")                                                   \
	X(ps, "ps", "[--tree [PID]] [options]", "list all shimmed processes as a tree")            \
	X(stat, "stat", "PID [options]", "show the memory and cleanups of a process")              \
	X(trim, "trim", "PID... | --all | --all-users | --tree PID",                               \
	  "return free memory now, and report how much")                                           \
	X(check, "check", "[PID] [--threshold 85]", "check how near memory is to its limit")       \
	X(round, "round", "PID...", "tell a process that a round has ended")                       \
	X(set, "set", "PID... NAME=VALUE", "change a setting of a running process")                \
	X(reset_peak, "reset-peak", "PID...", "reset the peaks of live bytes and GPU memory")      \
	X(options, "options", "[--json | --markdown]", "list all settings")                        \
	X(presets, "presets", "[--json]", "list sets of settings for a role")                      \
	X(sites, "sites", "PID [options]", "show live heap bytes by allocating stack")             \
	X(snapshot, "snapshot", "PID [options]",                                                   \
	  "list the blocks of the GPU pool: size, state, age")                                     \
	X(look, "look", "PID [--gc] [--json]",                                                     \
	  "tell whether a process without the shim is a candidate for it")                         \
	X(last, "last", "[PID | NAME | FILE] [-o report.html]",                                    \
	  "explain what filled the memory of a killed process")                                    \
	X(doctor, "doctor", "[PID]", "check the machine or a process for problems")                \
	X(diagnose, "diagnose", "PID [--for 60s] [options]",                                       \
	  "find the cause of a process's memory use")                                              \
	X(advise, "advise", "PID [--json]", "recommend settings for a process, with reasons")      \
	X(budget, "budget", "--params N [options]",                                                \
	  "estimate the GPU memory of a model, and how many fit")                                  \
	X(fit, "fit", "--model-mb MB [options]", "compute how many clients a GPU can serve")       \
	X(export, "export", "[--textfile DIR | --otlp] [options]",                                 \
	  "export all figures as metrics for Prometheus or OpenTelemetry")                         \
	X(plot, "plot", "PID | FILE [-o x.svg|png|pdf]",                                           \
	  "draw memory over time, in the terminal or as a picture")                                \
	X(compare, "compare", "FILE FILE... [-o x.svg|png|pdf]",                                   \
	  "hold recordings against each other: a table, or a picture")                             \
	X(trace, "trace", "PID | FILE [-o x.json]", "write a recording as a trace for Perfetto")

/* Commands that are programs of their own, since they need a library that a server may not have.
 * `mtctl NAME` executes PROGRAM, which is beside mtctl or in LIBDIR/mtshim, with NAME as argv[1]
 * and the arguments after it. */
#define MT_SUBCOMMANDS(X)                                                                          \
	X("top", "[options]", "show a live view of all shimmed processes", "mtctl-top")            \
	X("report", "PID | FILE [-o report.html]",                                                 \
	  "write one page that explains a process, for a ticket or a mail", "mtctl-plot")          \
	X("serve", "[--listen 127.0.0.1:9477]", "serve a live page, Prometheus metrics and JSON",  \
	  "mtctl-serve")

struct mt_command {
	const char *name, *arguments, *help;
	const char *program; /* NULL: mtctl itself */
};

/* Returns all commands in the order of the tables. */
const struct mt_command *mt_command_list(size_t *count);
const struct mt_command *mt_command_find(const char *name);

#define X(function, name, arguments, help) int mt_command_##function(int argc, char **argv);
MT_COMMANDS(X)
#undef X

/* Executes the program of the command in the place of this process; argv[0] stands for the command.
 * Returns an exit code only if that fails, after a message. */
int mt_subcommand_exec(const struct mt_command *command, char **argv);

/* The main function of such a program: finds the command by argv[1], and calls it with "mtctl" as
 * argv[0]. `commands` ends with a NULL name. */
struct mt_subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
};
int mt_subcommand_main(const struct mt_subcommand *commands, int argc, char **argv);

/* Once, first of all: makes sure that descriptors 0 to 2 are open, or a file that mtctl opens would
 * become its stdout. A program that mtctl executes finds them closed, as they were. */
void mt_command_open_standard(void);

/* Sets the handler of SIGINT, SIGTERM and SIGHUP, but not of one that is ignored: they must not end
 * mtctl before it has switched off the sampler that it has switched on. */
void mt_command_set_end_signals(void (*handler)(int));

/* A handler that sets mt_command_ended, and that flag, for a command that ends its work early. */
void mt_command_end(int number);
extern volatile sig_atomic_t mt_command_ended;

/* Returns the exit code of mtctl. Output that did not reach its reader (a full disk, a closed pipe)
 * is a failure of every command. */
int mt_command_finish(int code);

/* Prints the usage line on stderr. Returns MT_EXIT_USAGE. */
int mt_command_misused(const char *name);

/* An option of a command: "--name", and with a letter also "-l". */
struct mt_option {
	const char *name;
	void *target; /* what the option fills in */
	/* Reads the option's value into the target; text is NULL if the value was left out.
	 * Returns false for a value that is not valid, after a message. NULL: a switch without a
	 * value, which sets the bool at target. */
	bool (*take)(const struct mt_option *option, const char *text);
	char letter;         /* 0: none */
	bool value_optional; /* the value may be left out */
	double min, max;     /* for `take`; of a duration in seconds, max 0: a day */
	const char *what;    /* mt_option_number: what the value is, as "a number of sites" */
};

/* Where --tree, or --tree=PID, was given; the PID may also be the operand. */
struct mt_option_tree {
	bool is_wanted;
	const char *pid; /* NULL: not given */
};

/* Values of `take`: a text (target: const char *), a duration from `min` to `max` seconds, if
 * max 0 stands for a day (mt_option_ms: the target is a uint64_t, milliseconds; mt_option_seconds:
 * a double, seconds), a percentage (target: double), a whole number (target: uint64_t), a tree
 * (target: struct mt_option_tree). */
bool mt_option_text(const struct mt_option *option, const char *text);
bool mt_option_ms(const struct mt_option *option, const char *text);
bool mt_option_seconds(const struct mt_option *option, const char *text);
bool mt_option_percent(const struct mt_option *option, const char *text);
bool mt_option_number(const struct mt_option *option, const char *text);
bool mt_option_take_tree(const struct mt_option *option, const char *text);

#define MT_OPERANDS_PROGRAM (-1)
#define MT_OPERANDS_MAX     1000000 /* any number of them */

/* What a command accepts. Its help is that of its page, docs/mtctl/NAME.md, which the build
 * compiles in (scripts/generate/help.awk). */
struct mt_command_line {
	const char *command;
	void (*print_more)(void);        /* what --help prints last; NULL: nothing */
	const struct mt_option *options; /* the last one has no name */
	int operands_min, operands_max;  /* MT_OPERANDS_PROGRAM: the first one ends the options */
};

/* Reads the options. Returns true if the command is to run: its operands begin at argv[optind],
 * and argv[argc] is NULL. Returns false if it has ended, with the exit code in *out_code:
 * --help, or a wrong use, which is on stderr. */
bool mt_command_line_read(const struct mt_command_line *line, int argc, char **argv, int *out_code);

/* Blocks SIGINT, SIGTERM and SIGHUP for sigtimedwait(2) or signalfd(2), and returns the set. Leaves
 * out signals that the caller of mtctl has made it ignore (nohup): a blocked signal is not
 * discarded, and would end mtctl. */
sigset_t mt_command_block_endings(void);

#endif
