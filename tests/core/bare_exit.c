/* bare_exit.c MOMENT -- a program of some MB ends its threads by the exit system call, past libc:
 * main's status is 7.
 *   main     main alone
 *   strict   main alone, in strict seccomp, which allows no other way
 *   filter   main alone, killed by a seccomp filter that kills the thread that calls getppid
 *   child    a child alone, forked by another thread; main ends as the child did
 *   others   main, while another thread goes on for a moment and ends the same way
 *   last     main by pthread_exit, then another thread by the system call */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELD_BYTES (64u << 20)

static void grow(void)
{
	memset(malloc(HELD_BYTES), 1, HELD_BYTES);
	usleep(300000); /* the shim's thread is asleep again */
	puts("grown");
	fflush(stdout);
}

static void *end_late(void *unused)
{
	(void)unused;
	usleep(800000); /* longer than the shim takes to see that main has left */
	puts("the other thread is done");
	fflush(stdout);
	syscall(SYS_exit, 3);
	return NULL;
}

static void *fork_and_follow(void *unused)
{
	int status = 0;
	pid_t child = fork();

	(void)unused;
	if (child == 0) {
		grow();
		syscall(SYS_exit, 7);
	}
	waitpid(child, &status, 0);
	exit(WEXITSTATUS(status));
}

static void kill_at_getppid(void)
{
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(lines) / sizeof(lines[0]), .filter = lines};
	const struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	syscall(SYS_getppid);
}

int main(int argc, char **argv)
{
	const char *moment = argc > 1 ? argv[1] : "";
	pthread_t thread;

	if (strcmp(moment, "child") == 0 &&
	    pthread_create(&thread, NULL, fork_and_follow, NULL) == 0)
		pause();
	grow();
	if (strcmp(moment, "others") == 0 || strcmp(moment, "last") == 0)
		pthread_create(&thread, NULL, end_late, NULL);
	if (strcmp(moment, "last") == 0)
		pthread_exit(NULL);
	if (strcmp(moment, "filter") == 0)
		kill_at_getppid();
	if (strcmp(moment, "strict") == 0)
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	syscall(SYS_exit, 7);
}
