/* signals_rows_life.c -- a signal through the life of a process: dying of it, threads, fork, vfork,
 * exec, longjmp. rows_init must read the same with and without the shim; rows_survive are those in
 * which a program without it dies. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "signals.h"

extern char **environ;

static void say_end(pid_t child)
{
	int status = 0;

	if (waitpid(child, &status, 0) != child)
		say("no child: errno %d", errno);
	say("child: exit %d signal %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
	    WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* ---- dying by the signal, the program's own choice ---- */

static void last_words(int sig)
{
	say("last words");
	signal(sig, SIG_DFL);
	raise(sig);
	say("still in the handler, where the signal is blocked");
}

static void play_die_in_handler(int sig)
{
	signal(sig, last_words);
	kill(getpid(), sig);
	say("not reached");
}

static void play_die_of_second_one_shot(int sig)
{
	sysv_signal(sig, handler_a);
	raise(sig);
	view(sig);
	raise(sig);
	say("not reached");
}

static void play_die_after_siginterrupt(int sig)
{
	signal(sig, handler_a);
	signal(sig, SIG_DFL);
	siginterrupt(sig, 1);
	view(sig);
	raise(sig);
	say("not reached");
}

static void play_die_from_unblocking(int sig)
{
	sighold(sig);
	sigset(sig, SIG_HOLD);
	signal(sig, SIG_DFL);
	raise(sig);
	say("pending");
	sigrelse(sig);
	say("not reached");
}

struct target {
	pthread_t whom;
	int sig;
};

static void *strike_thread(void *given)
{
	const struct target *target = given;

	pthread_kill(target->whom, target->sig);
	return NULL;
}

static void play_die_by_another_thread(int sig)
{
	struct target target = {pthread_self(), sig};
	pthread_t thread;

	signal(sig, handler_a);
	signal(sig, SIG_DFL);
	view(sig);
	pthread_create(&thread, NULL, strike_thread, &target);
	pthread_join(thread, NULL);
	sleep(10);
	say("not reached");
}

/* ---- threads, waiting, jumping ---- */

static void *set_thread(void *sig)
{
	signal(*(int *)sig, handler_b);
	return NULL;
}

static void play_set_by_another_thread(int sig)
{
	pthread_t thread;

	pthread_create(&thread, NULL, set_thread, &sig);
	pthread_join(thread, NULL);
	view(sig);
	raise(sig);
}

static void play_wait(int sig)
{
	struct signalfd_siginfo info;
	sigset_t only;
	int got = 0, fd;

	sigemptyset(&only);
	sigaddset(&only, sig);
	sigprocmask(SIG_BLOCK, &only, NULL);
	raise(sig);
	say("sigwait %d got %d", sigwait(&only, &got), got == sig);
	kill(getpid(), sig);
	fd = signalfd(-1, &only, SFD_NONBLOCK);
	say("signalfd %d",
	    (int)read(fd, &info, sizeof info) == (int)sizeof info && (int)info.ssi_signo == sig);
	view(sig);
}

static sigjmp_buf back;
static volatile int jumps;

static void jump(int sig)
{
	(void)sig;
	jumps++;
	siglongjmp(back, 1);
}

static void play_jump(int sig)
{
	signal(sig, jump);
	sigsetjmp(back, 1);
	if (jumps < 1000)
		raise(sig);
	say("jumps %d", jumps);
	view(sig);
}

static void set_again(int sig)
{
	sysv_signal(sig, set_again);
	if (++jumps < 100)
		raise(sig);
}

static void play_one_shot_set_again(int sig)
{
	sysv_signal(sig, set_again);
	raise(sig);
	say("calls %d", jumps);
	view(sig);
}

/* More different handlers than the shim has slots, and then the first again. */
static void play_many_wishes(int sig)
{
	static const int bits[] = {SA_RESTART, SA_NODEFER, SA_ONSTACK, SA_SIGINFO,
				   (int)SA_RESETHAND};
	struct sigaction first, act, old;

	signal(sig, handler_b);
	sigaction(sig, NULL, &first);
	for (int round = 0; round < 96; round++) {
		memset(&act, 0, sizeof act);
		for (int bit = 0; bit < 5; bit++)
			act.sa_flags |= round >> bit & 1 ? bits[bit] : 0;
		act.sa_handler = round < 32 ? handler_a : round < 64 ? SIG_DFL : handler_b;
		if (act.sa_flags & SA_SIGINFO)
			act.sa_handler = round % 3 ? SIG_IGN : handler_b;
		sigaction(sig, &act, &old);
		say("%d: was %s flags %#x", round, name_of(old.sa_handler),
		    (unsigned)flags_of(&old));
	}
	sigaction(sig, &first, NULL);
	view(sig);
	raise(sig);
}

/* ---- fork, vfork, a bare clone, exec, spawn ---- */

static void play_fork(int sig)
{
	pid_t child;

	signal(sig, handler_a);
	child = fork();
	if (child == 0) {
		view(sig);
		raise(sig);
		signal(sig, handler_b);
		raise(sig);
		child = fork();
		if (child == 0) {
			raise(sig);
			signal(sig, SIG_DFL);
			raise(sig);
			_exit(1);
		}
		say_end(child);
		_exit(5);
	}
	say_end(child);
	view(sig);
	raise(sig);
}

/* The child shares our memory; what it sets must stay its own. */
static void play_vfork(int sig)
{
	pid_t child;

	signal(sig, handler_a);
	child = vfork();
	if (child == 0) {
		view(sig);
		signal(sig, SIG_IGN);
		view(sig);
		siginterrupt(sig, 1);
		sigset(sig, handler_b);
		view(sig);
		raise(sig);
		signal(sig, SIG_DFL);
		view(sig);
		_exit(6);
	}
	say_end(child);
	view(sig);
	raise(sig);
	child = vfork();
	if (child == 0) {
		signal(sig, SIG_DFL);
		raise(sig);
		_exit(7);
	}
	say_end(child);
	raise(sig);
}

static void play_vfork_one_shot(int sig)
{
	pid_t child;

	sysv_signal(sig, handler_a);
	child = vfork();
	if (child == 0) {
		raise(sig);
		view(sig);
		raise(sig);
		_exit(8);
	}
	say_end(child);
	view(sig);
	raise(sig);
	view(sig);
}

static void play_clone(int sig)
{
	pid_t child;

	signal(sig, handler_a);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		view(sig);
		raise(sig);
		signal(sig, handler_b);
		view(sig);
		raise(sig);
		signal(sig, SIG_DFL);
		view(sig);
		raise(sig);
		_exit(9);
	}
	say_end(child);
	view(sig);
	raise(sig);
}

static void other_atfork(void)
{
	signal(SIGUSR1, handler_b);
	signal(SIGUSR2, handler_b);
}

/* Handlers of fork's child run in the order of registration; this one is registered last, after any
 * of a preloaded library, and one of a constructor that ran earlier is the same to the program. */
static void play_atfork(int sig)
{
	pid_t child;

	pthread_atfork(NULL, NULL, other_atfork);
	child = fork();
	if (child == 0) {
		signal(sig, SIG_IGN);
		sigset(sig, handler_b);
		view(sig);
		raise(sig);
		_exit(0);
	}
	say_end(child);
	view(sig);
}

static void spawn_view(int sig, short flags)
{
	char number[16];
	char *argv[] = {(char[]){"signals_table"}, number, (char[]){"view"}, NULL};
	posix_spawnattr_t attributes;
	sigset_t all;
	pid_t child;

	snprintf(number, sizeof number, "%d", sig);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, flags);
	posix_spawnattr_setsigdefault(&attributes, &all);
	if (posix_spawn(&child, "/proc/self/exe", NULL, &attributes, argv, environ) == 0)
		say_end(child);
	posix_spawnattr_destroy(&attributes);
}

static void play_spawn(int sig)
{
	static const sighandler_t each[] = {SIG_DFL, handler_a, SIG_IGN};

	for (size_t i = 0; i < 3; i++) {
		signal(sig, each[i]);
		spawn_view(sig, 0);
		spawn_view(sig, POSIX_SPAWN_SETSIGDEF);
		view(sig);
	}
}

static void play_die_by_kill(int sig)
{
	signal(sig, handler_a);
	kill(getpid(), sig);
	signal(sig, SIG_DFL);
	kill(getpid(), sig);
	say("alive");
}

static void play_die_by_kill_after_one_shot(int sig)
{
	sysv_signal(sig, handler_a);
	for (int i = 0; i < 2; i++)
		kill(getpid(), sig);
	say("alive");
}

/* ---- rows in which a program without the shim dies ---- */

static void play_kill(int sig)
{
	errno = 77;
	kill(getpid(), sig);
	say("alive, errno %d", errno);
	view(sig);
}

static void play_raise_untouched(int sig)
{
	raise(sig);
	say("alive");
}

static void play_queue(int sig)
{
	sigqueue(getpid(), sig, (union sigval){0});
	say("alive");
}

static void play_fork_kill(int sig)
{
	pid_t child = fork();

	if (child == 0) {
		kill(getpid(), sig);
		say("child alive");
		_exit(0);
	}
	say_end(child);
	kill(getpid(), sig);
	say("alive");
}

/* A thread without an alternate stack, on the smallest stack there is, deep in it. */
static void *small_thread(void *sig)
{
	volatile char deep[4096];

	deep[0] = deep[4095] = 1;
	kill(getpid(), *(int *)sig);
	pthread_kill(pthread_self(), *(int *)sig);
	return deep[0] ? NULL : sig;
}

static void play_small_stack(int sig)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 16384);
	if (pthread_create(&thread, &attributes, small_thread, &sig) == 0)
		pthread_join(thread, NULL);
	say("alive");
}

static void play_view(int sig)
{
	view(sig);
}

const struct row rows_life[] = {{"view", play_view},
				{"die_in_handler", play_die_in_handler},
				{"die_of_second_one_shot", play_die_of_second_one_shot},
				{"die_after_siginterrupt", play_die_after_siginterrupt},
				{"die_from_unblocking", play_die_from_unblocking},
				{"die_by_another_thread", play_die_by_another_thread},
				{"die_by_kill", play_die_by_kill},
				{"die_by_kill_after_one_shot", play_die_by_kill_after_one_shot},
				{"set_by_another_thread", play_set_by_another_thread},
				{"wait", play_wait},
				{"jump", play_jump},
				{"one_shot_set_again", play_one_shot_set_again},
				{"many_wishes", play_many_wishes},
				{"fork", play_fork},
				{"vfork", play_vfork},
				{"vfork_one_shot", play_vfork_one_shot},
				{"clone", play_clone},
				{"atfork", play_atfork},
				{"spawn", play_spawn},
				{0}};

const struct row rows_survive[] = {{"kill", play_kill},
				   {"raise_untouched", play_raise_untouched},
				   {"queue", play_queue},
				   {"fork_kill", play_fork_kill},
				   {"small_stack", play_small_stack},
				   {0}};
