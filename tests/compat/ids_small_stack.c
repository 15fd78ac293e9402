/* ids_small_stack.c COUNT -- calls setuid, setreuid and setgroups, without changing anything, on a
 * stack of 8 kB, once the process has so many threads. */
#include <dirent.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static ucontext_t outer, inner;
static char stack[8192] __attribute__((aligned(16)));

static int threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	int count = -2;

	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void change(void)
{
	gid_t groups[64];
	int count = getgroups(64, groups);

	if (setuid(getuid()) != 0 || setreuid(getuid(), geteuid()) != 0)
		exit(1);
	(void)setgroups(count > 0 ? (size_t)count : 0, groups);
}

int main(int argc, char **argv)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	int wanted = argc > 1 ? atoi(argv[1]) : 1;

	for (int i = 0; i < 30000; i++)
		*(char *)malloc(2000) = 1;
	for (int i = 0; i < 500 && threads() < wanted; i++)
		nanosleep(&pause, NULL);
	getcontext(&inner);
	inner.uc_stack.ss_sp = stack;
	inner.uc_stack.ss_size = sizeof(stack);
	inner.uc_link = &outer;
	makecontext(&inner, change, 0);
	swapcontext(&outer, &inner);
	printf("%d\n", threads());
	return 0;
}
