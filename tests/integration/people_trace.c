/* people_trace.c -- runs a program, and exchanges two names at the very moment at which it is about
 * to make a file: what a race would hit now and then. people_trace NAME OTHER PROGRAM... */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXCHANGE 2u /* RENAME_EXCHANGE, linux/fs.h */
#define OPTIONS                                                                                    \
	(PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC)

/* An open that makes a new file and takes none that is there. */
static int makes_a_file(pid_t task)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, task, NULL, &regs) != 0 || regs.orig_rax != SYS_openat ||
	    (long long)regs.rax != -38)
		return 0;
	return (regs.rdx & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
}

int main(int argc, char **argv)
{
	int status, code = 0, done = 0;
	pid_t child, task;

	if (argc < 4)
		return 2;
	child = fork();
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(3);
		raise(SIGSTOP);
		execv(argv[3], argv + 3);
		_exit(4);
	}
	if (waitpid(child, &status, 0) != child ||
	    ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(size_t)OPTIONS) != 0)
		return 3;
	ptrace(PTRACE_SYSCALL, child, NULL, NULL);
	while ((task = waitpid(-1, &status, __WALL)) > 0) {
		int number = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;

		if (task == child && (WIFEXITED(status) || WIFSIGNALED(status)))
			code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		if (!number)
			continue;
		if (number == (SIGTRAP | 0x80) && !done && makes_a_file(task))
			done = syscall(SYS_renameat2, AT_FDCWD, argv[1], AT_FDCWD, argv[2],
				       EXCHANGE) == 0;
		ptrace(PTRACE_SYSCALL, task, NULL,
		       (void *)(size_t)(number == SIGTRAP || number == SIGSTOP ||
							number == (SIGTRAP | 0x80)
						? 0
						: number));
	}
	printf("%s\n", done ? "exchanged" : "never");
	return code;
}
