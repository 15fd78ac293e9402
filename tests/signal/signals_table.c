/* signals_table.c -- plays a row with one signal and prints what a program sees.
 *   signals_table SIGNAL ROW    in this process
 *   signals_table SIGNAL all    every row but those of surviving, each in a forked child, with its
 *     wait status
 * SIGNALS_BEFORE in the environment sets something before any constructor runs, also before a
 * preloaded library's. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "signals.h"

void say(const char *format, ...)
{
	char line[1024];
	va_list list;
	int length;

	va_start(list, format);
	length = vsnprintf(line, sizeof line - 1, format, list);
	va_end(list);
	line[length++] = '\n';
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		_exit(99);
}

int flags_of(const struct sigaction *act)
{
	return act->sa_handler == SIG_DFL ? 0 : act->sa_flags;
}

const char *name_of(sighandler_t handler)
{
	union {
		void (*info)(int, siginfo_t *, void *);
		sighandler_t plain;
	} with_info = {.info = handler_info};

	return handler == SIG_DFL           ? "default"
	       : handler == SIG_IGN         ? "ignore"
	       : handler == SIG_ERR         ? "error"
	       : handler == SIG_HOLD        ? "hold"
	       : handler == handler_a       ? "A"
	       : handler == handler_b       ? "B"
	       : handler == with_info.plain ? "info"
					    : "stranger";
}

static void mask_text(const sigset_t *mask, char *out)
{
	*out = '\0';
	for (int sig = 1; sig <= 64; sig++)
		if (sigismember(mask, sig) == 1)
			sprintf(out + strlen(out), " %d", sig);
}

void view(int sig)
{
	struct sigaction seen;
	char mask[256];

	memset(&seen, 0x5a, sizeof seen);
	if (sigaction(sig, NULL, &seen) < 0) {
		say("  view: errno %d", errno);
		return;
	}
	if (seen.sa_handler == SIG_DFL) { /* its flags and mask have no meaning */
		say("  view: default");
		return;
	}
	mask_text(&seen.sa_mask, mask);
	say("  view: %s flags %#x restorer %d mask%s", name_of(seen.sa_handler),
	    (unsigned)seen.sa_flags, seen.sa_restorer != NULL, mask);
}

static void say_call(const char *who, int sig, int kept)
{
	stack_t stack;
	sigset_t blocked;
	char mask[256];

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	sigaltstack(NULL, &stack);
	mask_text(&blocked, mask);
	say("  %s(%d) errno %d altstack %d blocked%s", who, sig, kept,
	    stack.ss_flags & SS_ONSTACK ? 1 : 0, mask);
}

void handler_a(int sig)
{
	say_call("A", sig, errno);
}

void handler_b(int sig)
{
	say_call("B", sig, errno);
}

void handler_info(int sig, siginfo_t *info, void *context)
{
	say_call("info", sig, errno);
	say("  info: signo %d code %d pid %d value %d context %d", info->si_signo, info->si_code,
	    info->si_pid == getpid(), info->si_code == SI_QUEUE ? info->si_value.sival_int : 0,
	    context != NULL);
}

static void before(int argc, char **argv, char **envp)
{
	int sig = argc > 1 ? atoi(argv[1]) : 0;

	for (; *envp; envp++) {
		if (strcmp(*envp, "SIGNALS_BEFORE=handler") == 0)
			signal(sig, handler_b);
		else if (strcmp(*envp, "SIGNALS_BEFORE=default") == 0)
			signal(sig, SIG_DFL);
		else if (strcmp(*envp, "SIGNALS_BEFORE=ignore") == 0)
			sigignore(sig);
		else if (strcmp(*envp, "SIGNALS_BEFORE=interrupt") == 0)
			siginterrupt(sig, 1);
	}
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **,
									    char **) = before;

static bool play(const struct row *rows, const char *name, int sig)
{
	for (; rows->name; rows++)
		if (strcmp(rows->name, name) == 0) {
			rows->play(sig);
			return true;
		}
	return false;
}

static void play_all(const struct row *rows, int sig)
{
	for (; rows->name; rows++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			say("%s", rows->name);
			rows->play(sig);
			_exit(0);
		}
		waitpid(child, &status, 0);
		say("%s: exit %d signal %d", rows->name,
		    WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		    WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	}
}

int main(int argc, char **argv)
{
	int sig = argc > 2 ? atoi(argv[1]) : 0;

	if (sig == 0)
		return 2;
	alarm(60);
	if (strcmp(argv[2], "all") == 0) {
		play_all(rows_libc, sig);
		play_all(rows_life, sig);
		return 0;
	}
	if (strcmp(argv[2], "list") == 0) {
		for (const struct row *row = rows_libc; row->name; row++)
			puts(row->name);
		for (const struct row *row = rows_life; row->name; row++)
			puts(row->name);
		return 0;
	}
	if (play(rows_libc, argv[2], sig) || play(rows_life, argv[2], sig) ||
	    play(rows_survive, argv[2], sig))
		return 0;
	return 2;
}
