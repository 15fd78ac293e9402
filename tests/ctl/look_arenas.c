/* look_arenas.c -- three threads that allocate, so that glibc makes three arenas; then 20 MB of brk
 * heap, and 64 MB that are mapped. Writes "ready" and waits for the end of stdin. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 3 };
static pthread_barrier_t all;

static void *allocate(void *unused)
{
	void *block = malloc(100000);

	memset(block, 'x', 100000);
	pthread_barrier_wait(&all);
	pause();
	free(block);
	return unused;
}

int main(void)
{
	static void *blocks[200];
	pthread_t thread;
	void *mapped =
		mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pthread_barrier_init(&all, NULL, THREADS + 1);
	memset(mapped, 'y', 64 << 20);
	for (int i = 0; i < 200; i++)
		blocks[i] = memset(malloc(100000), 'z', 100000);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, allocate, NULL);
	pthread_barrier_wait(&all);
	puts("ready");
	fflush(stdout);
	(void)!read(0, blocks, 1);
	return 0;
}
