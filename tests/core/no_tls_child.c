/* no_tls_child.c CALL MB: from a process of so many MB, makes a child that shares its memory and
 * has no thread-local data of its own, as Chromium does before it changes its root. The child calls
 * CALL; "copy": nothing, and has memory of its own. Prints "exit 7", or "signal" and the number
 * that ended it. */
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TLS_BYTES   16384
#define STACK_BYTES (64 << 10)

static const char *wanted;

static _Noreturn void end(void)
{
	for (;;)
		syscall(SYS_exit, 7);
}

static int child(void *unused)
{
	const struct rlimit limit = {1000, 1000};

	if (strcmp(wanted, "_exit") == 0)
		_exit(7);
	if (strcmp(wanted, "_Exit") == 0)
		_Exit(7);
	if (strcmp(wanted, "setrlimit") == 0)
		setrlimit(RLIMIT_CORE, &limit);
	if (strcmp(wanted, "prlimit") == 0)
		prlimit(0, RLIMIT_CORE, &limit, NULL);
	if (strcmp(wanted, "unshare") == 0)
		unshare(CLONE_FS);
	if (strcmp(wanted, "setgroups") == 0)
		setgroups(0, unused);
	end();
}

int main(int argc, char **argv)
{
	static char tls[TLS_BYTES] __attribute__((aligned(16)));
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	size_t bytes = argc == 3 ? strtoul(argv[2], NULL, 0) << 20 : 0;
	char *block = malloc(bytes + 1);
	int flags, status = 0;
	pid_t pid;

	if (argc != 3 || !block)
		return 2;
	memset(block, 1, bytes);
	wanted = argv[1];
	usleep(300000);
	flags = strcmp(wanted, "copy") == 0 ? 0 : CLONE_FS | CLONE_VM | CLONE_VFORK;
	pid = clone(child, stack + STACK_BYTES, flags | CLONE_SETTLS | SIGCHLD, NULL, NULL,
		    tls + TLS_BYTES / 2, NULL);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 3;
	if (WIFSIGNALED(status))
		printf("signal %d\n", WTERMSIG(status));
	else
		printf("exit %d\n", WEXITSTATUS(status));
	free(block);
	return 0;
}
