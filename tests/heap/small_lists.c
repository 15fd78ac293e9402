/* small_lists THREADS: so many threads each build a list three times, as Python's json does: it
 * grows by an eighth up to 6 kB, with a text of 3 kB for each step. Then they wait, and the process
 * prints the highest resident kB that it had. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static pthread_barrier_t done, end;

static void *work(void *unused)
{
	for (int i = 0; i < 3; i++) {
		char *list = NULL;

		for (size_t bytes = 1100; bytes < 6000; bytes += bytes / 8) {
			char *text = malloc(3000);

			list = realloc(list, bytes);
			memset(list, 1, bytes);
			memset(text, 1, 3000);
			free(text);
		}
		free(list);
	}
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&end);
	return unused;
}

int main(int argc, char **argv)
{
	unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	pthread_t *threads = calloc(count, sizeof(*threads));
	pthread_attr_t attributes;
	struct rusage usage;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	pthread_barrier_init(&done, NULL, count + 1);
	pthread_barrier_init(&end, NULL, count + 1);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&threads[i], &attributes, work, NULL) != 0)
			return 1;
	pthread_barrier_wait(&done);
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld\n", usage.ru_maxrss);
	pthread_barrier_wait(&end);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	return 0;
}
