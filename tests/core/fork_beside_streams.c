/* fork_beside_streams.c -- one thread forks, one calls fflush(NULL), two read lines, which
 * allocates while their stream is locked. libc's fork takes its list of streams first and the
 * locks of malloc last; whoever takes them the other way round deadlocks. Usage:
 * fork_beside_streams SECONDS Source: glibc, bug 19431. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_bool is_over;

static void *flush(void *unused)
{
	(void)unused;
	while (!is_over)
		fflush(NULL);
	return NULL;
}

/* getline allocates while it has the stream locked, blocks that no thread's cache has. */
static void *read_lines(void *unused)
{
	static char text[60000];

	(void)unused;
	memset(text, 'a', sizeof(text));
	while (!is_over) {
		FILE *stream = fmemopen(text, sizeof(text), "r");

		for (int i = 0; i < 200; i++) {
			char *line = NULL;
			size_t bytes = 0;

			rewind(stream);
			(void)!getline(&line, &bytes, stream);
			free(line);
		}
		fclose(stream);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	void *(*const work[])(void *) = {flush, read_lines, read_lines};
	time_t end = time(NULL) + (count > 1 ? atoi(arguments[1]) : 1);
	pthread_t threads[3];
	int children = 0;

	free(calloc(1, 64 << 20));
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work[i], NULL);
	while (time(NULL) < end) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			/* the child may use streams and memory */
			FILE *stream = fopen("/dev/null", "w");

			free(malloc(100000));
			_exit(stream ? fclose(stream) != 0 : 1);
		}
		if (waitpid(child, &status, 0) != child || status != 0)
			return 1;
		children++;
	}
	is_over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return children > 0 ? 0 : 1;
}
