/* phases.c [WORD...] -- a program with a whole life, in which anything of the shim's may fail: it
 * must say the same as without the shim, and end the same way. What the machine itself may refuse
 * now and then (memory, a thread, a process) it asks for again, as programs do; a refusal that is
 * no honest one is told. Words:
 *   control file      MTCTL is run upon this process, with the arguments that stand in MTCTL_WORDS
 *   refuse    the system calls that REFUSED names are refused from main on, in all threads
 *     (filter.c)
 *   leave     main ends by pthread_exit; a thread writes the last line
 *   fds       no descriptor but the three is to be had, from the first phase on
 *   idle      rests for 1.5 s more */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter.h"

#define END_STATUS  5
#define TRIES       400 /* 5 ms apart */
#define THREADS     3
#define HANDED      100
#define SMALL_COUNT 4000
#define LARGE_COUNT 24
#define LARGE_BYTES (128 * 1024)

static _Atomic unsigned odd; /* refusals that were not honest, and contents that were not kept */
static void *handed[THREADS][HANDED];
static unsigned char *small[SMALL_COUNT], *large[LARGE_COUNT];
static volatile sig_atomic_t handled;

/* ---- asking again ---- */

static void pause_ms(long ms)
{
	struct timespec span = {.tv_nsec = ms * 1000000};

	while (nanosleep(&span, &span) != 0 && errno == EINTR)
		continue;
}

/* Refused: honestly? Then once more at once, then a little later. False when it has been refused
 * for too long. */
static bool may_ask_again(int *tries, int code, int honest)
{
	if (code != honest)
		odd++;
	if (*tries > 0)
		pause_ms(5);
	return ++*tries < TRIES;
}

static _Noreturn void give_up(const char *what)
{
	printf("%s: refused for ever, %u odd\n", what, odd);
	fflush(stdout);
	_exit(9);
}

#define INSIST(type, what, call)                                                                   \
	({                                                                                         \
		int tries_ = 0;                                                                    \
		type got_;                                                                         \
                                                                                                   \
		while (!(got_ = (call)))                                                           \
			if (!may_ask_again(&tries_, errno, ENOMEM))                                \
				give_up(what);                                                     \
		got_;                                                                              \
	})

static unsigned char *get(size_t bytes)
{
	return INSIST(unsigned char *, "malloc", malloc(bytes));
}

static void begin_thread(pthread_t *out, void *(*run)(void *), void *argument)
{
	int code, tries = 0;

	while ((code = pthread_create(out, NULL, run, argument)))
		if (!may_ask_again(&tries, code, EAGAIN))
			give_up("pthread_create");
}

static pid_t begin_child(void)
{
	int tries = 0;
	pid_t child;

	fflush(stdout);
	while ((child = fork()) < 0)
		if (!may_ask_again(&tries, errno == ENOMEM ? EAGAIN : errno, EAGAIN))
			give_up("fork");
	return child;
}

/* ---- blocks that say whose they are ---- */

static void mark(unsigned char *block, size_t bytes, unsigned seed)
{
	for (size_t at = 0; at < bytes; at += 64)
		block[at] = (unsigned char)(seed + at);
	block[bytes - 1] = (unsigned char)seed;
}

static void check(const unsigned char *block, size_t bytes, unsigned seed)
{
	bool good = block[bytes - 1] == (unsigned char)seed;

	for (size_t at = 0; at + 1 < bytes; at += 64)
		good &= block[at] == (unsigned char)(seed + at);
	odd += !good;
}

/* ---- the phases ---- */

static void family(void)
{
	unsigned char *zeroed = INSIST(unsigned char *, "calloc", calloc(300, 7));
	unsigned char *grown = get(100);
	void *aligned[4] = {NULL};
	static volatile size_t huge = SIZE_MAX / 2 + 1; /* not before the compiler's eyes */
	int tries = 0, code;

	for (size_t i = 0; i < 2100; i++)
		odd += zeroed[i] != 0;
	mark(grown, 100, 3);
	for (size_t bytes = 1000; bytes < 3000000; bytes *= 7) {
		grown = INSIST(unsigned char *, "realloc", realloc(grown, bytes));
		odd += grown[0] != 3 || grown[64] != 67;
	}
	for (size_t bytes = 3000000; bytes < 30000000; bytes += 3000000) {
		grown = INSIST(unsigned char *, "realloc", realloc(grown, bytes));
		grown[bytes - 1] = (unsigned char)(bytes / 3000000);
		for (size_t end = 3000000; end <= bytes; end += 3000000)
			odd += grown[end - 1] != end / 3000000 || grown[64] != 67;
	}
	while ((code = posix_memalign(&aligned[0], 4096, 10000)))
		if (!may_ask_again(&tries, code, ENOMEM))
			give_up("posix_memalign");
	aligned[1] = INSIST(void *, "aligned_alloc", aligned_alloc(256, 1024));
	aligned[2] = INSIST(void *, "memalign", memalign(64, 100000));
	aligned[3] = INSIST(void *, "valloc", valloc(5000));
	odd += (uintptr_t)aligned[0] % 4096 || (uintptr_t)aligned[1] % 256 ||
	       (uintptr_t)aligned[2] % 64;
	errno = 0;
	odd += malloc(huge) != NULL || errno != ENOMEM;
	for (int i = 0; i < 4; i++)
		free(aligned[i]);
	free(zeroed);
	free(grown);
	printf("family: %u odd\n", odd);
}

static size_t size_of(unsigned i)
{
	return 17 + i * 7919 % (i % 50 ? 900 : 60000);
}

static void *work(void *argument)
{
	void **out = argument;
	unsigned char *blocks[4 * HANDED];

	for (unsigned i = 0; i < 4 * HANDED; i++) {
		blocks[i] = get(size_of(i));
		mark(blocks[i], size_of(i), i);
	}
	for (unsigned i = 0; i < 4 * HANDED; i++) {
		check(blocks[i], size_of(i), i);
		if (i % 4)
			free(blocks[i]);
		else
			out[i / 4] = blocks[i];
	}
	return NULL;
}

/* Each hands a quarter of its blocks to main, which frees them when the thread is gone. */
static void threads(void)
{
	pthread_t ids[THREADS];

	for (int i = 0; i < THREADS; i++)
		begin_thread(&ids[i], work, handed[i]);
	for (int i = 0; i < THREADS; i++)
		odd += pthread_join(ids[i], NULL) != 0;
	for (int i = 0; i < THREADS; i++)
		for (unsigned at = 0; at < HANDED; at++) {
			check(handed[i][at], size_of(at * 4), at * 4);
			free(handed[i][at]);
		}
	printf("threads: %u odd\n", odd);
}

static void grow(void)
{
	for (unsigned i = 0; i < SMALL_COUNT; i++) {
		small[i] = get(200 + i % 300);
		mark(small[i], 200 + i % 300, i);
	}
	for (unsigned i = 0; i < LARGE_COUNT; i++) {
		large[i] = get(LARGE_BYTES);
		mark(large[i], LARGE_BYTES, i);
	}
	for (unsigned i = 0; i < LARGE_COUNT; i++) {
		check(large[i], LARGE_BYTES, i);
		free(large[i]);
	}
	for (unsigned i = 0; i < SMALL_COUNT; i++)
		if (i % 50)
			free(small[i]);
	printf("growth: %u odd\n", odd);
}

/* By now what was freed goes back; what was kept must not. */
static void rest(void)
{
	pause_ms(60);
	for (unsigned i = 0; i < SMALL_COUNT; i += 50)
		check(small[i], 200 + i % 300, i);
	printf("rest: %u odd\n", odd);
}

/* ---- from outside ---- */

/* As mtctl would be started by somebody else: without the shim. What it finds and answers is not
 * this program's affair. */
static void be_rung(void)
{
	char pid[16], *words = getenv("MTCTL_WORDS"), *arguments[12] = {getenv("MTCTL")}, *at,
		      *environment[4] = {NULL};
	posix_spawn_file_actions_t actions;
	int count = 1, status, inherited = 0;
	pid_t child;

	if (!words || !arguments[0])
		return;
	words = strdup(words);
	if (!words)
		return;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	for (at = strtok(words, " "); at && count < 10; at = strtok(NULL, " "))
		arguments[count++] = strcmp(at, "PID") == 0 ? pid : at;
	for (char **from = environ; *from; from++)
		if (strncmp(*from, "MT_DIR=", 7) == 0 && inherited < 3)
			environment[inherited++] = *from;
	posix_spawn_file_actions_init(&actions);
	if (posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) == 0 &&
	    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0 &&
	    posix_spawn(&child, arguments[0], &actions, NULL, arguments, environment) == 0)
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			continue;
	posix_spawn_file_actions_destroy(&actions);
	free(words);
}

static void count_signal(int sig)
{
	(void)sig;
	handled++;
}

/* Whether the kernel has a handler for it: without the shim the signal would kill, and so it does
 * where that was refused. */
static bool is_caught(int sig)
{
	char line[256];
	unsigned long long mask = 0;
	FILE *status = fopen("/proc/self/status", "re");

	while (status && fgets(line, sizeof(line), status))
		if (strncmp(line, "SigCgt:", 7) == 0)
			mask = strtoull(line + 7, NULL, 16);
	if (status)
		fclose(status);
	return mask >> (sig - 1) & 1;
}

static void signals(void)
{
	if (is_caught(SIGUSR1)) {
		kill(getpid(), SIGUSR1);
		pause_ms(15);
	}
	signal(SIGUSR2, count_signal);
	signal(SIGUSR1, count_signal);
	raise(SIGUSR2);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_DFL);
	printf("signals: %d handled, %u odd\n", (int)handled, odd);
}

static void child_life(void)
{
	pthread_t id;

	grow();
	begin_thread(&id, work, handed[0]);
	odd += pthread_join(id, NULL) != 0;
	pause_ms(20);
	exit(7 + (int)odd);
}

static void fork_phase(void)
{
	int status = -1;
	pid_t child = begin_child();

	if (child == 0)
		child_life();
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	printf("fork: %s %d, %u odd\n", WIFEXITED(status) ? "exit" : "signal",
	       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), odd);
}

/* ---- the end ---- */

static void *last(void *unused)
{
	pause_ms(100);
	free(get(100000));
	printf("the last thread: %u odd\n", odd); /* stays in the buffer until exit */
	return unused;
}

/* libc ends the program without it where pthread_exit cannot open it any more. */
static void load_unwinder(void)
{
	int tries = 0;

	while (!dlopen("libgcc_s.so.1", RTLD_NOW))
		if (!may_ask_again(&tries, ENOMEM, ENOMEM)) /* dlerror has words, and no errno */
			give_up("dlopen");
}

static _Noreturn void leave(void)
{
	pthread_t id;

	begin_thread(&id, last, NULL);
	pthread_detach(id);
	pthread_exit(NULL);
}

static bool has_word(int argc, char **argv, const char *word)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], word) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	static char buffer[4096];
	const struct rlimit three = {3, 3};

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	if (has_word(argc, argv, "refuse") && !refuse(getenv("REFUSED"), true))
		return 3;
	if (has_word(argc, argv, "leave"))
		load_unwinder();
	if (has_word(argc, argv, "fds"))
		setrlimit(RLIMIT_NOFILE, &three);
	family();
	threads();
	grow();
	rest();
	if (has_word(argc, argv, "idle"))
		usleep(1500000);
	if (has_word(argc, argv, "control"))
		be_rung();
	signals();
	fork_phase();
	if (has_word(argc, argv, "leave"))
		leave();
	printf("end\n");
	return END_STATUS;
}
