/* fork_first.c -- threads whose first act of all is to fork, before they have ever allocated.
 * Prints how many children came back. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 20

static void *fork_at_once(void *well)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		char *block = malloc(100000);

		memset(block, 1, 100000);
		free(block);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0)
		;
	__atomic_fetch_add((int *)well, status == 0, __ATOMIC_RELAXED);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int well = 0;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, fork_at_once, &well);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d of %d\n", well, THREADS);
	return 0;
}
