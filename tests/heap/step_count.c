/* Counts the instructions of 100 pairs of malloc and free in a child, step by step, once its heap
 * serves blocks of the embedded allocator. With the word "legacy" in an address space that the
 * kernel fills from below, as after ulimit -s unlimited. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIRS 100

static void pairs(void)
{
	for (int i = 0; i < PAIRS; i++)
		free(malloc(64));
}

static void child(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	free(malloc(2u << 20));
	pairs();
	raise(SIGSTOP);
	pairs();
	raise(SIGSTOP);
	_exit(0);
}

int main(int argc, char **argv)
{
	long steps = 0;
	int status;
	pid_t pid;

	if (argc > 1 && strcmp(argv[1], "legacy") == 0) {
		personality(ADDR_COMPAT_LAYOUT);
		execl("/proc/self/exe", argv[0], "again", (char *)NULL);
		return 2;
	}
	pid = fork();
	if (pid == 0)
		child();
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return 3;
	do {
		steps++;
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 ||
		    waitpid(pid, &status, 0) != pid)
			return 3;
	} while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	kill(pid, SIGKILL);
	printf("%ld\n", steps / PAIRS);
	return 0;
}
