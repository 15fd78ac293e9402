/* sites_late_walker.c -- a thread that is interrupted in the middle of a stack walk, inside
 * libgcc_s.so.1, and does not come back to it while the process forks: prints how many milliseconds
 * the fork took, and then how many the five forks of its child. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define FORKS 5

static volatile sig_atomic_t interrupted;

/* The code of libgcc_s.so.1. */
static uintptr_t walker_from, walker_to;

static int find_walker(struct dl_phdr_info *object, size_t bytes, void *unused)
{
	(void)bytes;
	(void)unused;
	if (!strstr(object->dlpi_name, "libgcc_s.so.1"))
		return 0;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) {
			walker_from = object->dlpi_addr + segment->p_vaddr;
			walker_to = walker_from + segment->p_memsz;
		}
	}
	return 1;
}

static uintptr_t interrupted_at(const void *context)
{
#if defined(__x86_64__)
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
#endif
}

static void stay(int number, siginfo_t *info, void *context)
{
	const struct timespec pause = {1, 0};
	uintptr_t at = interrupted_at(context);

	(void)number;
	(void)info;
	if (at < walker_from || at >= walker_to)
		return;
	interrupted = true;
	nanosleep(&pause, NULL);
}

static void *allocate(void *unused)
{
	for (;;)
		free(malloc(5000));
	return unused;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void child(int out)
{
	long began = now_ms(), took;

	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	took = now_ms() - began;
	_exit(write(out, &took, sizeof(took)) != (ssize_t)sizeof(took));
}

int main(void)
{
	const struct sigaction action = {.sa_sigaction = stay, .sa_flags = SA_SIGINFO};
	pthread_t thread;
	long began, first, later = -1;
	int ends[2];
	pid_t pid;

	if (!dlopen("libgcc_s.so.1", RTLD_NOW) || !dl_iterate_phdr(find_walker, NULL) ||
	    pipe(ends) != 0 || sigaction(SIGUSR1, &action, NULL) != 0 ||
	    pthread_create(&thread, NULL, allocate, NULL) != 0)
		return 2;
	while (!interrupted) {
		usleep(10000);
		pthread_kill(thread, SIGUSR1);
		usleep(1000);
	}
	began = now_ms();
	pid = fork();
	if (pid == 0)
		child(ends[1]);
	first = now_ms() - began;
	if (read(ends[0], &later, sizeof(later)) != (ssize_t)sizeof(later))
		return 3;
	waitpid(pid, NULL, 0);
	printf("%ld %ld\n", first, later);
	return 0;
}
