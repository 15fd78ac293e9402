/* address_limit.c LIMIT BLOCKS WHEN: fills memory with blocks ("large": 3 MB; "medium": 40 kB;
 * "small": 700 bytes; "scattered": small ones, freed in random order) until malloc fails, frees all
 * of them, and prints how many MB one mapping may have then, and how many of 20 threads with stacks
 * of 4 MB start. LIMIT: "as" or "data", 300 MB. WHEN: "first"; or "full", "freed": the limit is set
 * when 200 MB are filled, or freed again, which the worker sees within five seconds; "child": as
 * first, in a child of a process that holds 50 MB. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_BYTES ((size_t)300 << 20)
#define FILL_BYTES  ((size_t)200 << 20)
#define MOST        1000000u
#define THREADS     20u
#define STACK_BYTES ((size_t)4 << 20)

static void *blocks[MOST];

static void *nothing(void *argument)
{
	return argument;
}

static void set_limit(const char *name)
{
	const struct rlimit limit = {LIMIT_BYTES, LIMIT_BYTES};

	if (setrlimit(strcmp(name, "data") == 0 ? RLIMIT_DATA : RLIMIT_AS, &limit) != 0)
		abort();
}

static size_t fill(size_t each, size_t bytes)
{
	size_t count = 0;

	while (count < MOST && count * each < bytes && (blocks[count] = malloc(each)) != NULL)
		memset(blocks[count++], 1, each);
	return count;
}

static void shuffle(size_t count)
{
	for (size_t i = count - 1; i > 0; i--) {
		size_t other = (size_t)random() % (i + 1);
		void *block = blocks[i];

		blocks[i] = blocks[other];
		blocks[other] = block;
	}
}

static size_t largest_mb(void)
{
	size_t got = 0;

	for (size_t step = 512; step; step /= 2) {
		size_t bytes = (got + step) << 20;
		void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (mapped == MAP_FAILED)
			continue;
		munmap(mapped, bytes);
		got += step;
	}
	return got;
}

static size_t largest_soon_mb(int seconds)
{
	size_t got = largest_mb();

	for (int i = 0; i < 20 * seconds && got < LIMIT_BYTES * 2 / 3 >> 20; i++) {
		usleep(50000);
		got = largest_mb();
	}
	return got;
}

static unsigned int start_threads(void)
{
	pthread_t threads[THREADS];
	pthread_attr_t attributes;
	unsigned int count = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	while (count < THREADS && pthread_create(&threads[count], &attributes, nothing, NULL) == 0)
		count++;
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return count;
}

static void fill_and_free(const char *limit, const char *pattern, const char *when)
{
	size_t each = strcmp(pattern, "large") == 0    ? 3u << 20
		      : strcmp(pattern, "medium") == 0 ? 40000
						       : 700;
	int is_late = strcmp(when, "full") == 0 || strcmp(when, "freed") == 0;
	size_t count, largest;

	if (!is_late)
		set_limit(limit);
	count = fill(each, is_late ? FILL_BYTES : LIMIT_BYTES);
	if (strcmp(pattern, "scattered") == 0)
		shuffle(count);
	if (strcmp(when, "full") == 0)
		set_limit(limit);
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
	if (strcmp(when, "freed") == 0)
		set_limit(limit);
	largest = largest_soon_mb(strcmp(when, "freed") == 0 ? 5 : 0);
	printf("%zu %zu %u\n", count * each >> 20, largest, start_threads());
}

int main(int count, char **words)
{
	int status = 0;

	if (count != 4)
		return 2;
	if (strcmp(words[3], "child") != 0) {
		fill_and_free(words[1], words[2], words[3]);
		return 0;
	}
	free(blocks[fill(1 << 20, 50 << 20) / 2]);
	if (fork() == 0) {
		fill_and_free(words[1], words[2], words[3]);
		return 0;
	}
	wait(&status);
	return WEXITSTATUS(status);
}
