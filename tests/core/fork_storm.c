/* fork_storm.c FORKS [THREADS] -- four threads allocate and free as fast as they can while main
 * forks again and again. Every child allocates (so that a lock inherited as held would hang it),
 * every tenth starts threads of its own, every twentieth has a grandchild, every fiftieth execs.
 * Prints how many came back well. */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static atomic_bool over;

static void churn(unsigned seed, unsigned count)
{
	void *blocks[128] = {0};
	unsigned state = seed * 2654435761u + 1;

	for (unsigned i = 0; i < count; i++) {
		state = state * 1664525 + 1013904223;
		unsigned at = (state >> 8) % 128;
		size_t bytes = (state >> 16) % (i % 64 == 0 ? 400000 : 4000) + 1;
		free(blocks[at]);
		blocks[at] = malloc(bytes);
		if (!blocks[at])
			abort();
		memset(blocks[at], (int)i, bytes < 4096 ? bytes : 4096);
	}
	for (unsigned at = 0; at < 128; at++)
		free(blocks[at]);
}

static void *churn_on(void *argument)
{
	for (unsigned i = 0; !atomic_load(&over); i++)
		churn((unsigned)(uintptr_t)argument + i, 1000);
	return NULL;
}

static void *churn_once(void *argument)
{
	churn((unsigned)(uintptr_t)argument, 500);
	return NULL;
}

static void with_threads(unsigned number)
{
	pthread_t threads[3];

	for (unsigned i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, churn_once,
				   (void *)(uintptr_t)(number + i)) != 0)
			_exit(11);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static int reap(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) < 0)
		;
	return status == 0;
}

static void child_work(unsigned number)
{
	alarm(60);
	churn(number, 300);
	if (number % 10 == 0)
		with_threads(number);
	if (number % 20 == 0) {
		pid_t grandchild = fork();
		if (grandchild == 0) {
			churn(number, 300);
			with_threads(number + 7);
			_exit(0);
		}
		if (grandchild < 0 || !reap(grandchild))
			_exit(12);
	}
	if (number % 50 == 0)
		execl("/bin/true", "true", (char *)NULL);
	if (number % 3 == 0)
		exit(0);
	_exit(0);
}

/* The two other ways to a child; both share the parent's memory until the exec. */
static int spawn_one(unsigned number)
{
	char *arguments[] = {"true", NULL};
	pid_t child;

	if (number % 2) {
		if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) != 0)
			return 0;
	} else {
		child = vfork();
		if (child == 0) {
			execve("/bin/true", arguments, environ);
			_exit(127);
		}
	}
	return reap(child);
}

int main(int argc, char **argv)
{
	unsigned forks = argc > 1 ? (unsigned)atoi(argv[1]) : 100,
		 threads = argc > 2 ? (unsigned)atoi(argv[2]) : 4;
	unsigned well = 0, spawned = 0, spawns = 0;
	pthread_t workers[16];

	for (unsigned i = 0; i < threads && i < 16; i++)
		pthread_create(&workers[i], NULL, churn_on, (void *)(uintptr_t)i);
	for (unsigned i = 1; i <= forks; i++) {
		pid_t child = fork();
		if (child == 0)
			child_work(i);
		if (child < 0)
			break;
		well += (unsigned)reap(child);
		if (i % 25 == 0) {
			spawns++;
			spawned += (unsigned)spawn_one(i);
		}
	}
	atomic_store(&over, 1);
	for (unsigned i = 0; i < threads && i < 16; i++)
		pthread_join(workers[i], NULL);
	printf("%u of %u children, %u of %u spawned\n", well, forks, spawned, spawns);
	return well == forks && spawned == spawns ? 0 : 1;
}
