/* ctl/process/start_command.h -- the command line of a process as a user types it again: its words
 * quoted for a shell, so that it is one line which starts the same program. One thread may call. */
#ifndef MT_CTL_PROCESS_START_COMMAND_H
#define MT_CTL_PROCESS_START_COMMAND_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "ctl/output/error.h"
#include "ctl/process/process.h"

/* Room for a command in a message. */
#define MT_START_COMMAND_BYTES 200

/* Writes the words of /proc/PID/cmdline (`length` bytes, each word ended by a NUL) as a shell takes
 * them. Returns false if it does not fit: then it is cut at a word. Pure. */
bool mt_start_command_quote(const char *words, size_t length, char *out, size_t out_bytes);

/* The same for a process, "" if its command line cannot be read. Returns false if it is cut.
 * Waits for the process up to the limits of mt_process_read_memory. */
bool mt_start_command_read(const struct mt_process *process, char *out, size_t out_bytes);

/* The same for a message: " ..." ends what is cut, and a command line that cannot be read is comm,
 * quoted. */
void mt_start_command_say(const struct mt_process *process, char *out, size_t out_bytes);

/* Appends a word to the line in `out`, after a blank if the line is not empty. A word with
 * control characters, or that is not valid UTF-8, becomes $'...' with escapes, which bash, zsh, ksh
 * and busybox read: the line stays one line, and safe for a terminal. Returns false, and changes
 * nothing, if it does not fit. */
bool mt_shell_word_add(const char *word, char *out, size_t out_bytes);

/* ---- running it ---- */

/* Runs a program as a child as if it ran in the place of mtctl. The program
 * gets the signals that are sent to mtctl, its standard files, its terminal and its process group,
 * and mtctl ends as the program ends. The kernel stops and continues the whole group (Ctrl-Z).
 *
 * Signals are blocked and received by sigtimedwait(2), so that waiting for a signal is also the
 * clock of the recorder. One thread may call. */

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

/* Returns the exit code of the program. Ends this process by the same signal if a signal has
 * ended the program. */
int mt_launch_exit(const struct mt_launch *launch);

#endif
