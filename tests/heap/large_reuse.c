/* large_reuse.c -- fills 64 MB, frees them, and fills 32 MB with large blocks: prints how many of
 * these pages are faulted in, in percent. "alone": the 64 MB are blocks of 128 KiB. "child": the
 * same in a forked child, whose parent has had large blocks in two threads. "threads": the 64 MB
 * are large blocks of another thread, which lives on. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALL_BYTES ((size_t)128 << 10)
#define LARGE_BYTES ((size_t)512 << 10)
#define FIRST_BYTES ((size_t)64 << 20)
#define NEXT_BYTES  ((size_t)32 << 20)

static sem_t freed, over;

static void fill_and_free(size_t all, size_t each)
{
	void *blocks[FIRST_BYTES / SMALL_BYTES];
	size_t count = all / each;

	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(each);
		if (!blocks[i])
			abort();
		memset(blocks[i], 1, each);
	}
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static void print_next(void)
{
	long before = faults();

	fill_and_free(NEXT_BYTES, LARGE_BYTES);
	printf("%ld\n", (faults() - before) * 100 * sysconf(_SC_PAGESIZE) / (long)NEXT_BYTES);
	fflush(stdout);
}

static void *other(void *unused)
{
	(void)unused;
	fill_and_free(FIRST_BYTES, LARGE_BYTES);
	sem_post(&freed);
	sem_wait(&over);
	return NULL;
}

static void start_other(pthread_t *thread)
{
	sem_init(&freed, 0, 0);
	sem_init(&over, 0, 0);
	fill_and_free(LARGE_BYTES, LARGE_BYTES); /* the first thread with a large block */
	if (pthread_create(thread, NULL, other, NULL) != 0)
		abort();
	sem_wait(&freed);
}

static void end_other(pthread_t thread)
{
	sem_post(&over);
	pthread_join(thread, NULL);
}

static int run_in_child(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		fill_and_free(FIRST_BYTES, SMALL_BYTES);
		print_next();
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, 0) == child ? status : 1;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t thread;
	int status = 0;

	if (strcmp(how, "alone") == 0) {
		fill_and_free(FIRST_BYTES, SMALL_BYTES);
		print_next();
		return 0;
	}
	start_other(&thread);
	if (strcmp(how, "child") == 0)
		status = run_in_child();
	else
		print_next();
	end_other(thread);
	return status;
}
