/* filled_limit.c THREADS as|data -- so many threads at a time, in three generations, fill a limit
 * of 200 MB with blocks of mixed sizes, tolerate that malloc fails, free all and end. Prints which
 * larger requests of the main thread then succeed, and whether a thread can start. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define GENERATIONS 3
#define ROUNDS      20
#define BLOCKS      400
#define MOST        512

static void *fill_and_free(void *argument)
{
	unsigned seed = (unsigned)(size_t)argument;
	char *blocks[BLOCKS];

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BLOCKS; i++) {
			blocks[i] = i % 50 ? malloc(16 + (unsigned)rand_r(&seed) % 6000)
					   : calloc(1, 100000);
			if (blocks[i])
				blocks[i][0] = 1;
		}
		for (int i = 0; i < BLOCKS; i++) {
			char *moved = realloc(blocks[i], 1 + (unsigned)rand_r(&seed) % 9000);

			free(moved ? moved : blocks[i]);
		}
	}
	return NULL;
}

static void *nothing(void *argument)
{
	return argument;
}

static void tell(const char *what, void *block, size_t bytes)
{
	if (block)
		memset(block, 1, bytes);
	printf("%s %zu %s\n", what, bytes >> 10, block ? "yes" : "no");
	free(block);
}

static void generation(int count, const pthread_attr_t *attributes)
{
	pthread_t threads[MOST];
	int started = 0;

	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[started], attributes, fill_and_free,
				   (void *)(size_t)(i + 1)) == 0)
			started++;
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

int main(int count, char **arguments)
{
	static const size_t sizes[] = {20 << 10, 300 << 10, 3 << 20, 12 << 20};
	const struct rlimit limit = {200 << 20, 200 << 20};
	pthread_attr_t attributes;
	pthread_t thread;

	if (count < 3 || atoi(arguments[1]) > MOST ||
	    setrlimit(strcmp(arguments[2], "as") ? RLIMIT_DATA : RLIMIT_AS, &limit) != 0)
		return 2;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	for (int i = 0; i < GENERATIONS; i++)
		generation(atoi(arguments[1]), &attributes);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *aligned = NULL;

		tell("malloc", malloc(sizes[i]), sizes[i]);
		tell("calloc", calloc(1, sizes[i]), sizes[i]);
		tell("realloc", realloc(malloc(100), sizes[i]), sizes[i]);
		if (posix_memalign(&aligned, 64 << 10, sizes[i]) != 0)
			aligned = NULL;
		tell("aligned", aligned, sizes[i]);
	}
	printf("thread %s\n", pthread_create(&thread, NULL, nothing, NULL) == 0 ? "yes" : "no");
	return 0;
}
