/* most_at_limit LIMIT MB HOW: sets RLIMIT_AS or RLIMIT_DATA (as, data) to so many MB, allocates in
 * one way until malloc fails, and prints how many MB it held: one buffer that grows (grown), small
 * blocks (small), blocks of all sizes up to 2 MB (mixed), as many in four threads (threads). With
 * "late" as a fourth argument it has 2 MB before it sets the limit. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static _Atomic size_t held;

static size_t grow(void)
{
	char *buffer = NULL;
	size_t bytes = 0;

	for (char *next; (next = realloc(buffer, bytes + 50000)); bytes += 50000) {
		buffer = next;
		memset(buffer + bytes, 1, 50000);
	}
	return bytes;
}

static void *fill(void *most)
{
	unsigned seed = 1;

	for (;;) {
		size_t bytes;
		char *block;

		seed = seed * 1664525 + 1013904223;
		bytes = 1 + ((seed >> 4) % *(size_t *)most) / (1 + (seed >> 24) % 50);
		block = malloc(bytes);
		if (!block)
			return NULL;
		memset(block, 1, bytes);
		held += bytes;
	}
}

int main(int argc, char **argv)
{
	rlim_t bytes = strtoull(argv[2], NULL, 10) << 20;
	struct rlimit limit = {bytes, bytes};
	size_t most = strcmp(argv[3], "small") == 0 ? 500 : 2 << 20;
	pthread_t threads[4];

	if (argc > 4)
		memset(malloc(2 << 20), 1, 2 << 20);
	if (setrlimit(argv[1][0] == 'a' ? RLIMIT_AS : RLIMIT_DATA, &limit) != 0)
		return 1;
	if (strcmp(argv[3], "grown") == 0) {
		held = grow();
	} else if (strcmp(argv[3], "threads") == 0) {
		pthread_attr_t attributes;

		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, 256 << 10);
		for (int i = 0; i < 4; i++)
			if (pthread_create(&threads[i], &attributes, fill, &most) != 0)
				return 1;
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	} else {
		fill(&most);
	}
	printf("%zu\n", held >> 20);
	return 0;
}
