/* sites_storm.c -- everything that may meet a stack walk inside malloc: eight threads that allocate
 * at all depths, one that loads and unloads a library, threads that are cancelled while they
 * allocate, forks whose children unwind, and frames that are registered by hand as a JIT compiler
 * does, so that every look-up of the unwinder takes its lock. Runs for the given seconds; a child
 * that hangs is killed by its own limit_report, and counts. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sites_frames.h"

#define THREADS 8

static atomic_bool over;

static __attribute__((noinline)) void *allocate_deep(unsigned depth, size_t bytes)
{
	char here[64];
	void *block;

	memset(here, (int)depth, sizeof(here));
	block = depth ? allocate_deep(depth - 1, bytes + (size_t)(here[3] & 1)) : malloc(bytes);
	__asm__ volatile("" : : "r"(here) : "memory");
	return block;
}

static void *churn(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	void *window[64] = {NULL};

	while (!atomic_load(&over)) {
		void **slot = &window[rand_r(&state) % 64];

		if (rand_r(&state) % 4 == 0) {
			*slot = realloc(*slot, (size_t)(rand_r(&state) % 20000 + 1));
			continue;
		}
		free(*slot);
		*slot = allocate_deep((unsigned)rand_r(&state) % 60,
				      (size_t)(rand_r(&state) % 3000 + 1));
	}
	for (int i = 0; i < 64; i++)
		free(window[i]);
	return NULL;
}

static void *load_and_unload(void *name)
{
	while (!atomic_load(&over)) {
		void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

		if (library)
			dlclose(library);
	}
	return NULL;
}

static void give_back(void *block)
{
	free(block);
	free(allocate_deep(20, 300)); /* allocates while the thread is being unwound */
}

static void *until_cancelled(void *unused)
{
	(void)unused;
	for (;;) {
		void *block = allocate_deep(10, 500);

		pthread_cleanup_push(give_back, block);
		pthread_testcancel();
		pthread_cleanup_pop(1);
	}
}

static void cancel_one(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, until_cancelled, NULL) != 0)
		return;
	usleep(500);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

static int child(void)
{
	alarm(5);
	for (int i = 0; i < 20; i++)
		free(allocate_deep(30, 700));
	return unwind_once() > 2 ? 0 : 1;
}

static int fork_one(void)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0)
		_exit(child());
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 2);
	pthread_t threads[THREADS + 1];
	int forks = 0, bad = 0;

	/* Above all code: each look-up goes through the whole list, with its lock held. */
	for (uint64_t i = 0; i < 600; i++)
		register_frames(0x7fffffff00000000 + i * 16, 1);
	puts("ready");
	fflush(stdout);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
	pthread_create(&threads[THREADS], NULL, load_and_unload, "libcrypt.so.1");
	while (time(NULL) < end) {
		bad += fork_one() != 0;
		forks++;
		cancel_one();
	}
	atomic_store(&over, true);
	for (int i = 0; i <= THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("forks %d bad %d\n", forks, bad);
	return bad != 0 || forks == 0;
}
