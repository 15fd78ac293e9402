/* small_jobs.c wait COUNT BYTES | leave COUNT -- wait: each of COUNT threads allocates 100 kB in
 * blocks of BYTES, frees them and waits; prints the anonymous memory of the process in kB. leave:
 * COUNT threads, one after another, leave 900 kB each; prints the number of the process's threads
 * a second later. */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rollup.h"

#define JOB_BYTES 100000u

static pthread_barrier_t all_done;
static size_t block_bytes;

static void *work_and_wait(void *unused)
{
	char *blocks[JOB_BYTES / 100];
	size_t count = JOB_BYTES / block_bytes;

	for (size_t i = 0; i < count; i++)
		blocks[i] = memset(malloc(block_bytes), 1, block_bytes);
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
	pthread_barrier_wait(&all_done);
	pause();
	return unused;
}

static void *leave(void *unused)
{
	for (int i = 0; i < 9; i++)
		memset(malloc(JOB_BYTES), 1, JOB_BYTES);
	return unused;
}

static int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = -2; /* . and .. */

	while (tasks && readdir(tasks))
		count++;
	return count;
}

int main(int argc, char **argv)
{
	bool waits = argc > 3;
	unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	pthread_attr_t small;
	pthread_t thread;

	block_bytes = waits ? (size_t)atoi(argv[3]) : 1000;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	pthread_barrier_init(&all_done, NULL, count + 1);
	for (unsigned i = 0; i < count; i++) {
		if (pthread_create(&thread, &small, waits ? work_and_wait : leave, NULL))
			return 1;
		if (!waits)
			pthread_join(thread, NULL);
	}
	if (waits) {
		pthread_barrier_wait(&all_done);
		printf("%ld\n", rollup_kb("Anonymous:"));
	} else {
		sleep(1);
		printf("%d\n", count_threads());
	}
	return 0;
}
