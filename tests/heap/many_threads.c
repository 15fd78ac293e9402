/* many_threads N: N threads take a block of 100 bytes each, wait for one another and free it.
 * Prints the CPU time in ms. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *hold(void *unused)
{
	void *block = malloc(100);

	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	free(block);
	return unused;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t *threads = calloc(count, sizeof *threads);
	struct rusage usage;
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], &small, hold, NULL) != 0)
			return 77;
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld\n", (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
				(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
	return 0;
}
