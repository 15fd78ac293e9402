/* trapped_calls.c -- a sandbox that answers system calls itself: its filter raises SIGSYS for
 * madvise and sched_getaffinity, and its handler has them fail with ENOSYS. Fills and frees 40 MB,
 * rests, and prints "well". */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define TRAP_ON(number)                                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)

enum { BLOCKS = 40000, BLOCK_BYTES = 1000 };

static void answer(int sig, siginfo_t *info, void *at)
{
	ucontext_t *context = at;

	(void)sig;
	(void)info;
#if defined(__x86_64__)
	context->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#else
	context->uc_mcontext.regs[0] = (unsigned long long)-ENOSYS;
#endif
}

int main(void)
{
	static void *blocks[BLOCKS];
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		TRAP_ON(SYS_madvise),
		TRAP_ON(SYS_sched_getaffinity),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};

	if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 1;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < BLOCKS; i++)
			blocks[i] = memset(malloc(BLOCK_BYTES), 1, BLOCK_BYTES);
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		usleep(300000);
	}
	puts("well");
	return 0;
}
