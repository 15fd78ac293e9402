/* hoards.c -- programs that hold next to nothing, and that an allocator may make hold much:
 *   hoards threads COUNT   threads that fill and free blocks of many sizes and then sleep
 *   hoards one MIB         one block, freed, and no call of malloc after it
 *   hoards jobs MIB        one thread for each job, which frees what it has allocated and ends
 *   hoards small MIB       small blocks, freed by the thread that has allocated them
 *   hoards daemon MIB      a forked child frees what its parent has allocated, and prints its PID
 * Prints "ready" once that is done, for jobs the CPU time in ms of a job, and waits for a line. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS  60
#define BLOCK 16000
#define SMALL 1000

static pthread_barrier_t all_done;
static int mib;

static void *fill_and_sleep(void *unused)
{
	static const int sizes[] = {16,   80,   448,  1024,  2048,  2560,
				    4096, 5120, 8192, 10240, 14000, 28000};
	void *blocks[60];

	for (size_t size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++) {
		for (int i = 0; i < 60; i++)
			blocks[i] = memset(malloc((size_t)sizes[size]), 1, (size_t)sizes[size]);
		for (int i = 0; i < 60; i++)
			free(blocks[i]);
	}
	pthread_barrier_wait(&all_done);
	pause();
	return unused;
}

static void *work(void *kept)
{
	int count = (mib << 20) / BLOCK;
	void **blocks = malloc((size_t)count * sizeof(void *));

	for (int i = 0; i < count; i++)
		blocks[i] = memset(malloc(BLOCK), 1, BLOCK);
	for (int i = kept ? 1 : 0; i < count; i++)
		free(blocks[i]);
	free(blocks);
	return NULL;
}

static void free_small(bool in_child)
{
	int count = (mib << 20) / SMALL;
	void **blocks = malloc((size_t)count * sizeof(void *));

	for (int i = 0; i < count; i++)
		blocks[i] = memset(malloc(SMALL), 1, SMALL);
	if (in_child && fork() != 0) {
		wait(NULL);
		_exit(0);
	}
	for (int i = 0; i < count; i++)
		free(blocks[i]);
	free(blocks);
	printf("%d\n", (int)getpid());
}

static double cpu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void run_jobs(void)
{
	double begun = 0;

	for (int job = 0; job < 2 * JOBS; job++) {
		pthread_t thread;

		if (job == JOBS)
			begun = cpu_ms();
		/* what the first jobs keep holds glibc's pages in their place, too */
		pthread_create(&thread, NULL, work, job < 20 ? &mib : NULL);
		pthread_join(thread, NULL);
	}
	printf("%.2f\n", (cpu_ms() - begun) / JOBS);
}

int main(int argc, char **argv)
{
	char line[8];
	pthread_t thread;

	if (argc < 3)
		return 2;
	mib = atoi(argv[2]);
	if (strcmp(argv[1], "threads") == 0) {
		pthread_barrier_init(&all_done, NULL, (unsigned)mib + 1);
		for (int i = 0; i < mib; i++)
			pthread_create(&thread, NULL, fill_and_sleep, NULL);
		pthread_barrier_wait(&all_done);
	} else if (strcmp(argv[1], "jobs") == 0) {
		run_jobs();
	} else if (strcmp(argv[1], "one") != 0) {
		free_small(strcmp(argv[1], "daemon") == 0);
	} else {
		setvbuf(stdout, NULL, _IONBF, 0);
		free(memset(malloc((size_t)mib << 20), 1, (size_t)mib << 20));
	}
	puts("ready");
	fflush(stdout);
	return read(0, line, sizeof(line)) < 0;
}
