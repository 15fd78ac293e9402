/* fast_bins.c MB -- a thread's arena of glibc with its free blocks in fast bins, which a trim
 * writes to; then so much memory at once that pressure begins, and a fork. A trim after the fork
 * would copy the pages that both share. Ends as it would without. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 900000

static pthread_mutex_t filled = PTHREAD_MUTEX_INITIALIZER;

static void *fill(void *unused)
{
	void **blocks = malloc(BLOCKS * sizeof(*blocks));

	(void)unused;
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = memset(malloc(100), 1, 100);
	srand(1);
	for (int i = BLOCKS - 1; i > 0; i--) {
		int other = rand() % (i + 1);
		void *block = blocks[i];

		blocks[i] = blocks[other];
		blocks[other] = block;
	}
	for (int i = 0; i < BLOCKS; i++)
		if (i % 8)
			free(blocks[i]);
	pthread_mutex_unlock(&filled);
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	size_t bytes = strtoul(argc > 1 ? argv[1] : "120", NULL, 10) << 20;
	pthread_t thread;
	pid_t child;

	pthread_mutex_lock(&filled);
	pthread_create(&thread, NULL, fill, NULL);
	pthread_mutex_lock(&filled);
	memset(malloc(bytes), 1, bytes);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	usleep(1000000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	puts("well");
	fflush(stdout);
	_exit(0);
}
