/* advise_server.c -- a server of eight threads that have each held 32 MB, one after the other, and
 * freed it: what their arenas keep is eight times what was ever live. Prints "ready" and waits for
 * its input to end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 8
#define BLOCKS  8192
#define BYTES   4096

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t done;

static void *serve(void *unused)
{
	static char *blocks[BLOCKS];

	pthread_mutex_lock(&turn);
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BYTES);
		if (!blocks[i])
			abort();
		memset(blocks[i], 1, BYTES);
	}
	usleep(250000); /* for a tick to see it */
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	pthread_mutex_unlock(&turn);
	pthread_barrier_wait(&done);
	pause();
	return unused;
}

int main(void)
{
	pthread_t thread;
	char byte;

	pthread_barrier_init(&done, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, serve, NULL) != 0)
			return 1;
	pthread_barrier_wait(&done);
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}
