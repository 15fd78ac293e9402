/* arenas_set HOW: imports mlockall, sets M_ARENA_MAX to 2 by a call or by dlsym (HOW), to 0 by a
 * call (zero), or leaves that to its user, holds 8 MB, and has 20 threads with a block each. Prints
 * how many arenas libc's malloc has. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS 20

int (*volatile lock)(int) = mlockall;

static pthread_barrier_t all;

static void *hold(void *unused)
{
	void *block = malloc(1000);

	pthread_barrier_wait(&all);
	free(block);
	return unused;
}

static void set(const char *how)
{
	int (*found)(int, int);

	*(void **)&found = dlsym(RTLD_DEFAULT, "mallopt");
	if (!strcmp(how, "call"))
		mallopt(M_ARENA_MAX, 2);
	else if (!strcmp(how, "zero"))
		mallopt(M_ARENA_MAX, 0);
	else if (!strcmp(how, "dlsym"))
		found(M_ARENA_MAX, 2);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	char *text = NULL;
	size_t bytes = 0;
	int count = 0;
	FILE *file;

	set(argc > 1 ? argv[1] : "");
	for (int i = 0; i < 8000; i++) {
		char *kept = malloc(1000);

		if (!kept)
			return 1;
		memset(kept, 1, 1000);
	}
	pthread_barrier_init(&all, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, hold, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	file = open_memstream(&text, &bytes);
	malloc_info(0, file);
	fclose(file);
	for (char *at = text; (at = strstr(at, "<heap nr=")); at++)
		count++;
	printf("%d\n", count);
	return lock == NULL;
}
