/* children.c WAY NUMBER -- a program of one thread of its own makes NUMBER children, in one of the
 * ways there are. It holds memory and lets some of it go all the time, so that a thread that looks
 * after its heap has something to do. Each child allocates, which it may: nobody else of the
 * program's can have been in the heap.
 *   fork vfork spawn       fork; vfork and exec; posix_spawn with every attribute there is
 *   _fork                  _Fork: no handlers run
 *   clone clone3           the bare system calls, as sandboxes and container tools make them: no
 *     handlers run either
 *   thread_of_the_parent   clone with CLONE_VM and CLONE_VFORK, on a stack of its own: the child
 *     shares the parent's memory
 *   line                   each child is the next one's parent: NUMBER deep
 *   tree                   each child forks two, to a depth of NUMBER
 *   execs                  NUMBER times fork and exec of true, from four threads at once
 *   renewed                the program execs itself NUMBER times, each time with its heap in use
 * Prints how many came back well. A child that hangs is killed by its limit_report. */
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define HELD 64

static char *held[HELD];
static unsigned turn;
static const char *own_path;
static char *const true_words[] = {"true", NULL};

static void use_heap(unsigned seed)
{
	for (unsigned i = 0; i < 40; i++) {
		unsigned at = (seed + i * 7) % HELD;
		size_t bytes = 1 + (seed * 7919u + i * 104729u) % (i % 10 ? 5000 : 400000);

		free(held[at]);
		held[at] = malloc(bytes);
		if (!held[at])
			_exit(91);
		held[at][0] = held[at][bytes - 1] = 1;
	}
	free(realloc(malloc(100), 50000));
}

static void be_a_child(unsigned seed)
{
	alarm(30);
	for (unsigned i = 0; i < 5; i++)
		use_heap(seed + i);
	_exit(0);
}

static int reap(pid_t child)
{
	int status = -1;

	while (child > 0 && waitpid(child, &status, __WALL) < 0 && errno == EINTR)
		;
	return child > 0 && status == 0;
}

/* ---- the ways; each makes one child and answers whether it came back well ---- */

static int by_fork(unsigned number)
{
	pid_t child = fork();

	if (child == 0)
		be_a_child(number);
	return reap(child);
}

static int by_fork_without_handlers(unsigned number)
{
	pid_t child = _Fork();

	if (child == 0)
		be_a_child(number);
	return reap(child);
}

static int by_clone(unsigned number)
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (child == 0)
		be_a_child(number);
	return reap(child);
}

static int by_clone3(unsigned number)
{
	struct clone_args arguments = {.exit_signal = SIGCHLD};
	pid_t child = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (child == 0)
		be_a_child(number);
	return reap(child);
}

static int by_vfork(unsigned number)
{
	pid_t child = vfork();

	(void)number;
	if (child == 0) {
		execve("/bin/true", true_words, environ);
		_exit(127);
	}
	return reap(child);
}

static int by_spawn(unsigned number)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t all;
	pid_t child = -1;

	(void)number;
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
						      POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 9, "/dev/null", 0, 0);
	posix_spawn_file_actions_addclose(&actions, 0);
	if (posix_spawn(&child, "/bin/true", &actions, &attributes, true_words, environ) != 0)
		child = -1;
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return reap(child);
}

static int in_parents_memory(void *number)
{
	use_heap((unsigned)(uintptr_t)number);
	return 0;
}

static int by_shared_memory(unsigned number)
{
	static char stack[256 * 1024] __attribute__((aligned(64)));

	const int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;

	return reap(
		clone(in_parents_memory, stack + sizeof(stack), flags, (void *)(uintptr_t)number));
}

/* ---- many ---- */

static int one_after_the_other(int (*make)(unsigned), unsigned count)
{
	unsigned well = 0;

	for (unsigned i = 0; i < count; i++) {
		use_heap(++turn);
		well += (unsigned)make(i);
	}
	printf("%u of %u\n", well, count);
	return 0;
}

static int in_a_line(unsigned count)
{
	for (unsigned depth = 0; depth < count; depth++) {
		pid_t child;

		use_heap(depth);
		child = fork();
		if (child != 0) {
			int well = reap(child);
			if (depth)
				_exit(!well);
			printf("%u of %u\n", well ? count : 0, count);
			return 0;
		}
	}
	use_heap(count);
	_exit(0);
}

static int grow_tree(unsigned depth)
{
	pid_t children[2];

	use_heap(depth);
	if (depth == 0)
		return 1;
	for (unsigned i = 0; i < 2; i++) {
		children[i] = fork();
		if (children[i] == 0)
			_exit(!grow_tree(depth - 1));
	}
	return reap(children[0]) & reap(children[1]);
}

static int as_a_tree(unsigned depth)
{
	printf("%s\n", grow_tree(depth) ? "all" : "not all");
	return 0;
}

static unsigned per_thread;
static atomic_uint well_in_threads;

static int by_fork_and_exec(void)
{
	pid_t child = fork();

	if (child == 0) {
		execve("/bin/true", true_words, environ);
		_exit(127);
	}
	return reap(child);
}

static void *exec_in_thread(void *number)
{
	for (unsigned i = 0; i < per_thread; i++) {
		free(malloc(100 + i));
		atomic_fetch_add(&well_in_threads,
				 (unsigned)(i % 2 ? by_vfork(i) : by_fork_and_exec()));
	}
	return number;
}

static int in_threads(unsigned count)
{
	pthread_t threads[4];

	per_thread = count / 4;
	for (unsigned i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, exec_in_thread, NULL) != 0)
			return 2;
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%u of %u\n", atomic_load(&well_in_threads), count / 4 * 4);
	return 0;
}

static int renewed(unsigned count)
{
	char left[16];

	for (unsigned i = 0; i < 20; i++)
		use_heap(count + i);
	if (count == 0) {
		puts("came to the end");
		return 0;
	}
	snprintf(left, sizeof(left), "%u", count - 1);
	execl(own_path, own_path, "renewed", left, (char *)NULL);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*make)(unsigned number);
	} ways[] = {
		{"fork", by_fork},
		{"vfork", by_vfork},
		{"spawn", by_spawn},
		{"_fork", by_fork_without_handlers},
		{"clone", by_clone},
		{"clone3", by_clone3},
		{"thread_of_the_parent", by_shared_memory},
	};
	static const struct {
		const char *name;
		int (*run)(unsigned number);
	} many[] = {
		{"line", in_a_line},
		{"tree", as_a_tree},
		{"execs", in_threads},
		{"renewed", renewed},
	};
	unsigned number = argc > 2 ? (unsigned)atoi(argv[2]) : 0;

	own_path = argv[0];
	for (unsigned i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(argv[1], ways[i].name) == 0)
			return one_after_the_other(ways[i].make, number);
	for (unsigned i = 0; argc > 1 && i < sizeof(many) / sizeof(many[0]); i++)
		if (strcmp(argv[1], many[i].name) == 0)
			return many[i].run(number);
	return 2;
}
