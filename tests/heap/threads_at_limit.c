/* threads_at_limit.c CHILDREN -- in each of so many children nine threads allocate blocks of one
 * size until malloc fails at a limit of 200 MB of address space, all free theirs, and do it again.
 * Every block is written. Prints how many children ended well.
 * Source: glibc's malloc/tst-malloc-thread-fail. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 9u
#define ROUNDS  2u

static pthread_barrier_t barrier;
static size_t block_bytes;

struct block {
	struct block *next;
	size_t mark;
};

static void *fill_and_free(void *argument)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct block *head = NULL, *block;

		pthread_barrier_wait(&barrier);
		while ((block = malloc(block_bytes))) {
			*block = (struct block){head, block_bytes};
			head = block;
		}
		pthread_barrier_wait(&barrier);
		while ((block = head)) {
			head = block->next;
			if (block->mark != block_bytes)
				abort();
			free(block);
		}
	}
	return argument;
}

static int run_child(void)
{
	pthread_t threads[THREADS];
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128 << 10);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (unsigned i = 1; i < THREADS; i++)
		if (pthread_create(&threads[i], &attributes, fill_and_free, NULL) != 0)
			return 2;
	fill_and_free(NULL);
	for (unsigned i = 1; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

int main(int count, char **arguments)
{
	static const size_t sizes[] = {4097, 16 << 10, 100000, 1 << 20};
	const struct rlimit limit = {200 << 20, 200 << 20};
	int children = count > 1 ? atoi(arguments[1]) : 40, well = 0;

	if (setrlimit(RLIMIT_AS, &limit) != 0)
		return 2;
	for (int i = 0; i < children; i++) {
		pid_t child;
		int status = -1;

		block_bytes = sizes[i % 4];
		child = fork();
		if (child == 0)
			_exit(run_child());
		if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
			well++;
		else
			fprintf(stderr, "%zu bytes: status %#x\n", block_bytes, (unsigned)status);
	}
	printf("%d\n", well);
	return 0;
}
