/* large_peak.c HOW EACH -- fills 96 MB in blocks of EACH kB, frees them, and fills as much again:
 * prints the peak of the resident size in MB. "chip": a small block comes in between. "thread":
 * another thread has its first large block in between. "other": that thread fills the second
 * 96 MB. "strings": none of that, but the blocks grow to this size by turns. "cut": each was three
 * times as large. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_BYTES ((size_t)96 << 20)
#define LARGE     ((size_t)300 << 10)
#define PIECE     ((size_t)128)

static size_t each_bytes;
static void *volatile kept;

static void fill_and_free(void)
{
	size_t count = ALL_BYTES / each_bytes;
	char **blocks = malloc(count * sizeof(*blocks));

	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(each_bytes);
		memset(blocks[i], 1, each_bytes);
	}
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
	free(blocks);
}

static void grow_by_turns(void)
{
	size_t count = ALL_BYTES / each_bytes;
	char **strings = calloc(count, sizeof(*strings));

	for (size_t bytes = PIECE; bytes <= each_bytes; bytes += PIECE) {
		for (size_t i = 0; i < count; i++) {
			strings[i] = realloc(strings[i], bytes);
			memset(strings[i] + bytes - PIECE, 1, PIECE);
		}
	}
}

static void cut_each(void)
{
	for (size_t filled = 0; filled < ALL_BYTES; filled += each_bytes) {
		char *block = memset(malloc(3 * each_bytes), 1, 3 * each_bytes);

		kept = realloc(block, each_bytes);
	}
}

static void *other(void *fills)
{
	if (fills)
		fill_and_free();
	else
		free(memset(malloc(LARGE), 1, LARGE));
	return NULL;
}

static long peak_kb(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[128];
	long kb = 0;

	while (status && !kb && fgets(line, sizeof(line), status))
		(void)sscanf(line, "VmHWM: %ld", &kb);
	return kb;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "";
	int fills = strcmp(how, "other") == 0;
	pthread_t thread;

	each_bytes = (argc > 2 ? strtoul(argv[2], NULL, 10) : 0) << 10;
	if (!each_bytes)
		return 2;
	if (strcmp(how, "strings") == 0 || strcmp(how, "cut") == 0) {
		if (*how == 's')
			grow_by_turns();
		else
			cut_each();
		printf("%ld\n", peak_kb() >> 10);
		return 0;
	}
	fill_and_free();
	kept = memset(malloc(100), 1, 100);
	if (strcmp(how, "chip") != 0 &&
	    (pthread_create(&thread, NULL, other, fills ? &each_bytes : NULL) != 0 ||
	     pthread_join(thread, NULL) != 0))
		return 3;
	if (!fills)
		fill_and_free();
	printf("%ld\n", peak_kb() >> 10);
	return 0;
}
