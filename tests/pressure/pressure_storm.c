/* pressure_storm.c -- 24 threads make and free huge blocks, of which they touch three pages each:
 * on paper many times the machine's memory. Prints how often somebody has asked for the pid, and
 * waits for the end of stdin. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define THREADS 24
#define ROUNDS  250
#define HELD    4
#define MB      ((size_t)1 << 20)

static atomic_uint pids_count;
static pid_t own;

/* In the place of getpid. */
static void count(int sig, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	(void)sig;
	(void)info;
	pids_count++;
#if defined(__x86_64__)
	at->uc_mcontext.gregs[REG_RAX] = own;
#else
	at->uc_mcontext.regs[0] = (unsigned long long)own;
#endif
}

static int trap_getpid(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	const struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO};

	own = getpid();
	return sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *storm(void *argument)
{
	unsigned seed = (unsigned)(uintptr_t)argument * 2654435761u + 1;
	char *held[HELD] = {NULL};

	for (int i = 0; i < ROUNDS; i++) {
		size_t bytes;

		seed = seed * 1664525u + 1013904223u;
		bytes = seed >> 8 & 1 ? MB * (4 + (seed >> 9) % 5)
				      : MB * (512 + (seed >> 9) % 1536);
		free(held[seed >> 30]);
		held[seed >> 30] = malloc(bytes);
		if (!held[seed >> 30])
			abort();
		held[seed >> 30][0] = held[seed >> 30][bytes / 2] = held[seed >> 30][bytes - 1] = 1;
	}
	for (int i = 0; i < HELD; i++)
		free(held[i]);
	return NULL;
}

int main(void)
{
	pthread_t ids[THREADS];

	free(malloc(MB)); /* the library starts before anything is counted */
	usleep(300000);
	if (trap_getpid() != 0)
		return 77;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&ids[i], NULL, storm, (void *)i) != 0)
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	printf("%u\n", pids_count);
	fflush(stdout);
	(void)getchar();
	return 0;
}
