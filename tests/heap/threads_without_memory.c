/* threads_without_memory.c -- threads allocate for the first time when no address space is left.
 * malloc may return NULL there. Then the address space comes back, and each thread must get memory.
 * Usage: threads_without_memory THREADS; prints how many threads got memory at last.
 * Source: glibc's malloc/tst-malloc-thread-fail. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define THREADS_MOST 200
#define PIECES       4096

static pthread_barrier_t barrier;
static void *pieces[PIECES];
static size_t sizes[PIECES];
static int pieces_count;

static void *allocate(void *unused)
{
	void *blocks[64];
	char *later;

	pthread_barrier_wait(&barrier); /* all threads run */
	pthread_barrier_wait(&barrier); /* nothing is left */
	for (int i = 0; i < 64; i++) {
		blocks[i] = malloc((size_t)24 << (i % 10));
		if (blocks[i])
			memset(blocks[i], 1, (size_t)24 << (i % 10));
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier); /* there is room again */
	later = malloc(1000);
	if (!later)
		return NULL;
	memset(later, 1, 1000);
	free(later);
	return unused;
}

static void fill(void)
{
	for (size_t bytes = 1u << 30; bytes >= 4096; bytes /= 2)
		for (;;) {
			void *piece =
				mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			if (piece == MAP_FAILED || pieces_count == PIECES)
				break;
			sizes[pieces_count] = bytes;
			pieces[pieces_count++] = piece;
		}
}

int main(int count, char **arguments)
{
	int threads_count = count > 1 ? atoi(arguments[1]) : 40;
	const struct rlimit limit = {(rlim_t)4 << 30, (rlim_t)4 << 30};
	pthread_t threads[THREADS_MOST];
	pthread_attr_t attributes;
	int served = 0;

	free(memset(malloc(8 << 20), 1, 8 << 20)); /* grown: the library serves */
	pthread_barrier_init(&barrier, NULL, (unsigned)threads_count + 1);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	for (int i = 0; i < threads_count; i++)
		if (pthread_create(&threads[i], &attributes, allocate, &barrier) != 0)
			return 2;
	pthread_barrier_wait(&barrier);
	if (setrlimit(RLIMIT_AS, &limit) != 0)
		return 3;
	fill();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < pieces_count; i++)
		munmap(pieces[i], sizes[i]);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < threads_count; i++) {
		void *got;

		pthread_join(threads[i], &got);
		served += got != NULL;
	}
	printf("%d of %d threads got memory\n", served, threads_count);
	return served == threads_count ? 0 : 1;
}
