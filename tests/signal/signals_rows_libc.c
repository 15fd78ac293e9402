/* signals_rows_libc.c -- one row for each function of libc that sets a handler, or changes how it
 * is called. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "signals.h"

typedef sighandler_t (*set_function)(int, sighandler_t);
typedef int (*change_function)(int, const struct sigaction *, struct sigaction *);

static void set(set_function how, int sig, sighandler_t handler)
{
	sighandler_t before;

	errno = 0;
	before = how(sig, handler);
	say("set %s: was %s errno %d", name_of(handler), name_of(before), errno);
	view(sig);
}

/* errno must come into the handler as the program left it. */
static void strike(int sig)
{
	errno = 77;
	raise(sig);
	say("struck: errno %d", errno);
}

/* Always a handler or SIG_IGN at the time of a strike: the rows of dying are elsewhere. */
static void play_setter(set_function how, int sig)
{
	view(sig);
	set(how, sig, handler_a);
	set(how, sig, handler_b);
	strike(sig);
	view(sig);
	set(how, sig, SIG_IGN);
	strike(sig);
	set(how, sig, SIG_IGN);
	set(how, sig, SIG_ERR);
	set(how, sig, SIG_DFL);
	set(how, sig, handler_a);
	strike(sig);
	set(how, sig, SIG_HOLD);
	set(how, sig, handler_a);
	siginterrupt(sig, 1);
	view(sig);
	set(how, sig, handler_b);
	siginterrupt(sig, 0);
	set(how, sig, handler_a);
	for (int bad = -1; bad <= 0; bad++)
		set(how, bad, handler_a);
	set(how, 65, handler_a);
	set(how, SIGKILL, handler_a);
	set(how, SIGSTOP, SIG_DFL);
}

#define SETTERS(X) X(signal) X(bsd_signal) X(ssignal) X(sysv_signal) X(__sysv_signal) X(sigset)
#define X(name)                                                                                    \
	static void play_##name(int sig)                                                           \
	{                                                                                          \
		play_setter(name, sig);                                                            \
	}
SETTERS(X)
#undef X

static void say_blocked(int sig)
{
	sigset_t now;

	sigprocmask(SIG_SETMASK, NULL, &now);
	say("blocked: %d", sigismember(&now, sig));
}

static void play_sigset_hold(int sig)
{
	set(sigset, sig, SIG_HOLD);
	say_blocked(sig);
	set(sigset, sig, SIG_HOLD);
	raise(sig);
	say("pending");
	set(sigset, sig, handler_a);
	say_blocked(sig);
	set(sigset, sig, SIG_HOLD);
	set(sigset, sig, SIG_IGN);
	say_blocked(sig);
	sighold(sig);
	set(sigset, sig, handler_b);
	strike(sig);
	sighold(sig);
	strike(sig);
	sigrelse(sig);
}

static const int flag_table[] = {
	0,
	SA_SIGINFO,
	SA_RESTART,
	SA_NODEFER,
	SA_ONSTACK,
	SA_ONSTACK | SA_SIGINFO | SA_RESTART,
	(int)SA_RESETHAND,
	(int)(SA_RESETHAND | SA_NODEFER | SA_SIGINFO),
	SA_NOCLDSTOP | SA_NOCLDWAIT,
	SA_INTERRUPT,
	/* unsupported for ever, tag bits, restorer, unknown */
	0x400,
	0x800,
	0x04000000,
	0x00010000,
};

static void change(change_function how, int sig, const struct sigaction *act)
{
	struct sigaction old;
	int result;

	memset(&old, 0x5a, sizeof old);
	errno = 0;
	result = how(sig, act, &old);
	say("change %d: %d errno %d", sig, result, errno);
	if (result == 0)
		say("  was %s flags %#x", name_of(old.sa_handler), (unsigned)flags_of(&old));
	view(sig);
}

static void play_flags(change_function how, int sig, int flags)
{
	struct sigaction act = {.sa_flags = flags};

	if (flags & SA_SIGINFO)
		act.sa_sigaction = handler_info;
	else
		act.sa_handler = handler_a;
	sigaddset(&act.sa_mask, SIGTERM);
	sigaddset(&act.sa_mask, SIGKILL);
	sigaddset(&act.sa_mask, SIGRTMAX);
	change(how, sig, &act);
	strike(sig);
	view(sig);
	how(sig, &act, NULL);
	errno = 78;
	sigqueue(getpid(), sig, (union sigval){.sival_int = 42});
	view(sig);
}

static void play_change(change_function how, int sig)
{
	static char stack_bytes[65536];
	const stack_t stack = {.ss_sp = stack_bytes, .ss_size = sizeof stack_bytes};
	struct sigaction act = {.sa_handler = handler_a, .sa_flags = SA_RESTART};

	sigaltstack(&stack, NULL);
	for (size_t i = 0; i < sizeof flag_table / sizeof *flag_table; i++)
		play_flags(how, sig, flag_table[i]);
	sigfillset(&act.sa_mask);
	change(how, sig, &act);
	say("same struct for both: %d", how(sig, &act, &act));
	say("  was %s flags %#x", name_of(act.sa_handler), (unsigned)flags_of(&act));
	act.sa_handler = SIG_IGN;
	change(how, sig, &act);
	strike(sig);
	change(how, sig, NULL);
	act.sa_handler = SIG_DFL;
	act.sa_flags = SA_NODEFER | SA_ONSTACK;
	change(how, sig, &act);
	change(how, sig, NULL);
	say("neither: %d", how(sig, NULL, NULL));
	change(how, -1, &act);
	change(how, 0, &act);
	change(how, 65, &act);
	change(how, SIGKILL, &act);
	change(how, SIGKILL, NULL);
}

static void play_sigaction(int sig)
{
	play_change(sigaction, sig);
}

static void play___sigaction(int sig)
{
	play_change(__sigaction, sig);
}

static void play_sigignore(int sig)
{
	struct sigaction act = {.sa_handler = handler_a, .sa_flags = SA_RESTART};

	say("%d", sigignore(sig));
	view(sig);
	strike(sig);
	sigaction(sig, &act, NULL);
	say("%d", sigignore(sig));
	view(sig);
	errno = 0;
	say("%d errno %d", sigignore(0), errno);
	say("%d errno %d", sigignore(SIGKILL), errno);
}

static void play_siginterrupt(int sig)
{
	static const sighandler_t each[] = {SIG_DFL, handler_a, SIG_IGN};

	for (size_t i = 0; i < 3; i++) {
		struct sigaction act = {.sa_handler = each[i], .sa_flags = SA_NODEFER};

		for (int wanted = 0; wanted <= 2; wanted++) {
			say("siginterrupt %d: %d", wanted, siginterrupt(sig, wanted));
			view(sig);
		}
		sigaction(sig, &act, NULL);
		view(sig);
		say("siginterrupt 0: %d", siginterrupt(sig, 0));
		view(sig);
	}
	errno = 0;
	say("%d errno %d", siginterrupt(0, 1), errno);
	say("%d errno %d", siginterrupt(65, 1), errno);
	say("%d errno %d", siginterrupt(SIGKILL, 1), errno);
}

struct caller {
	pthread_t whom;
	pid_t tid;
	int sig;
	int pipe_in;
};

/* Whether the caller's thread sleeps, and the signal no longer waits for it. */
static bool is_asleep(const struct caller *caller)
{
	char path[64], line[128];
	unsigned long long pending = ~0ull;
	bool asleep = false;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)caller->tid);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status)) {
		asleep = asleep || strncmp(line, "State:\tS", 8) == 0;
		sscanf(line, "SigPnd: %llx", &pending);
	}
	if (status)
		fclose(status);
	return asleep && !(pending >> (caller->sig - 1) & 1);
}

/* Waits for that, three times in a row: between two system calls a thread may wait for a lock. */
static void wait_until_asleep(const struct caller *caller)
{
	for (int seen = 0, tries = 0; seen < 3 && tries < 1000; tries++) {
		seen = is_asleep(caller) ? seen + 1 : 0;
		usleep(5000);
	}
}

static void *call_later(void *given)
{
	const struct caller *caller = given;

	wait_until_asleep(caller);
	pthread_kill(caller->whom, caller->sig);
	wait_until_asleep(caller);
	return write(caller->pipe_in, "x", 1) == 1 ? NULL : given;
}

/* Does a read() that waits end early, or start again? */
static void say_read(int sig)
{
	struct caller caller = {
		.whom = pthread_self(), .tid = (pid_t)syscall(SYS_gettid), .sig = sig};
	pthread_t thread;
	int ends[2];
	char byte;
	ssize_t got;

	if (pipe(ends) < 0)
		return;
	caller.pipe_in = ends[1];
	pthread_create(&thread, NULL, call_later, &caller);
	errno = 0;
	got = read(ends[0], &byte, 1);
	say("read: %d errno %d", (int)got, got < 0 ? errno : 0);
	pthread_join(thread, NULL);
}

static void play_restart(int sig)
{
	struct sigaction act = {.sa_handler = handler_a};

	signal(sig, handler_a);
	say_read(sig);
	siginterrupt(sig, 1);
	say_read(sig);
	signal(sig, handler_b);
	say_read(sig);
	siginterrupt(sig, 0);
	sysv_signal(sig, handler_a);
	say_read(sig);
	sigaction(sig, &act, NULL);
	say_read(sig);
	sigset(sig, handler_b);
	say_read(sig);
	sigignore(sig);
	say_read(sig);
}

const struct row rows_libc[] = {
#define X(name) {#name, play_##name},
	SETTERS(X) X(sigset_hold) X(sigaction) X(__sigaction) X(sigignore) X(siginterrupt)
		X(restart)
#undef X
			{0}};
