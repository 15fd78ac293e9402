/* late_caches.c THREADS -- each of so many threads that live together has one block. Then no
 * memory is left, and each allocates and frees small blocks of 1 MB in all. Then there is
 * room again: every second thread asks mallctl for its cache, and all do the same once more. Prints
 * how many threads then have what jemalloc calls a thread's cache. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define THREADS_MOST 200
#define PIECES       4096

extern int mallctl(const char *name, void *old, size_t *old_bytes, void *fresh, size_t bytes)
	__attribute__((weak));

static pthread_barrier_t barrier;
static void *pieces[PIECES];
static size_t sizes[PIECES];
static int pieces_count;
static void **blocks; /* a list of those that the heap still had */

static void turn_over(char *kept)
{
	for (int i = 0; i < 4096; i++) {
		char *block = malloc(256);

		if (block)
			memset(block, 1, 256);
		free(block);
	}
	kept[0] = 1;
}

static void *live(void *number)
{
	bool has_cache = false, wanted = true;
	size_t bytes = sizeof(has_cache);
	char *kept = malloc(100);

	pthread_barrier_wait(&barrier); /* all threads run */
	pthread_barrier_wait(&barrier); /* nothing is left */
	turn_over(kept);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier); /* there is room again */
	if ((size_t)number % 2)
		mallctl("thread.tcache.enabled", NULL, NULL, &wanted, sizeof(wanted));
	turn_over(kept);
	mallctl("thread.tcache.enabled", &has_cache, &bytes, NULL, 0);
	free(kept);
	return has_cache ? number : NULL;
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
	for (size_t bytes = 1u << 20; bytes >= 4096; bytes /= 2)
		for (void **block; (block = malloc(bytes)); blocks = block)
			*block = blocks;
}

static void make_room(void)
{
	while (blocks) {
		void **next = *blocks;

		free(blocks);
		blocks = next;
	}
	for (int i = 0; i < pieces_count; i++)
		munmap(pieces[i], sizes[i]);
}

int main(int count, char **arguments)
{
	int threads_count = count > 1 ? atoi(arguments[1]) : 100, cached = 0;
	const struct rlimit limit = {(rlim_t)4 << 30, (rlim_t)4 << 30};
	pthread_t threads[THREADS_MOST];
	pthread_attr_t attributes;

	if (!mallctl || threads_count > THREADS_MOST)
		return 2;
	pthread_barrier_init(&barrier, NULL, (unsigned)threads_count + 1);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	for (size_t i = 1; i <= (size_t)threads_count; i++)
		if (pthread_create(&threads[i - 1], &attributes, live, (void *)i) != 0)
			return 2;
	pthread_barrier_wait(&barrier);
	if (setrlimit(RLIMIT_AS, &limit) != 0)
		return 3;
	fill();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	make_room();
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < threads_count; i++) {
		void *got;

		pthread_join(threads[i], &got);
		cached += got != NULL;
	}
	printf("%d of %d threads\n", cached, threads_count);
	return 0;
}
