/* sandboxed_child.c END: forks a child from a large process as servers and browsers do: it touches
 * what it has inherited, gives up by a seccomp filter getpid and everything that has to do with
 * files, and ends, by exit(3) or _exit(2). Prints how it ended: "exit 7", or "signal 31" if it
 * still made such a call. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)48 << 20)

#define KILL_ON(number)                                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static int forbid_files(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		KILL_ON(SYS_openat),
		KILL_ON(SYS_unlinkat),
		KILL_ON(SYS_newfstatat),
		KILL_ON(SYS_getpid),
#ifdef SYS_open
		KILL_ON(SYS_open),
		KILL_ON(SYS_unlink),
		KILL_ON(SYS_lstat),
#endif
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
	bool calls_exit = argc == 2 && strcmp(argv[1], "exit") == 0;
	char *block = malloc(BYTES);
	int status = 0;

	if (!block)
		return 1;
	memset(block, 1, BYTES);
	if (fork() == 0) {
		memset(block, 2, BYTES);
		if (forbid_files())
			_exit(9);
		if (calls_exit)
			exit(7);
		_exit(7);
	}
	wait(&status);
	if (WIFSIGNALED(status))
		printf("signal %d\n", WTERMSIG(status));
	else
		printf("exit %d\n", WEXITSTATUS(status));
	free(block);
	return 0;
}
