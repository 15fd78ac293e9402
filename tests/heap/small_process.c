/* small_process.c -- what a small process holds. Prints one number.
 *   reloads MB COUNT  builds a list of MB in small blocks, replaces it COUNT times, the new one
 *                     first; kB of anonymous memory
 *   trims COUNT       calls malloc_trim after each of COUNT pairs; us of CPU time for each
 *   child             forks; kB that the child has written
 *   worker MB         forks beside blocks of its own; the child builds lists of MB in all, keeps a
 *                     block behind each, drops them and lies idle; kB of anonymous memory
 *   grows                     a buffer grows by 4 kB to 600 kB and goes, 50 times; page faults
 *   tuned                     sets M_TRIM_THRESHOLD to 64 MB, and makes and frees 2 MB 50 times;
 *                             page faults
 *   rises                     makes and frees a block, each larger than the last one, from 200 to
 *                             500 kB; page faults
 *   setenv                    makes blocks of 128 kB to 1.25 MB, each larger, beside setenv and
 *                             clearenv, 20 times; 0
 *   frees BYTES MB COUNT      fills MB in blocks of BYTES and frees them, COUNT times; kB of
 *                             anonymous memory
 *   child_frees BYTES MB COUNT  the same in a forked child of a parent that has done it
 *   sorts COUNT               collects tuples in blocks that double and an array that realloc
 *                             doubles; kB of anonymous memory that came meanwhile
 *   evicts MB BYTES TURNS     holds MB in blocks of up to BYTES; each of TURNS new ones takes the
 *                             place of others; kB of anonymous memory
 *   handed_over MB COUNT      fills MB in blocks of 200 bytes, which a thread that does nothing
 *                             else frees, COUNT times, and rests; kB of anonymous memory
 *   left_behind MB            a thread fills MB in blocks of 200 bytes and ends; the main thread,
 *                             which makes no others, frees them; kB of anonymous memory */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rollup.h"

struct node {
	struct node *next;
	char data[];
};

static struct node *build(long bytes, size_t least)
{
	struct node *first = NULL;

	while (bytes > 0) {
		size_t size = least + (size_t)rand() % 300;
		struct node *node = malloc(sizeof(*node) + size);

		if (!node)
			abort();
		memset(node->data, 1, size);
		node->next = first;
		first = node;
		bytes -= (long)size;
	}
	return first;
}

static void drop(struct node *node)
{
	while (node) {
		struct node *next = node->next;

		free(node);
		node = next;
	}
}

static long reloads(long bytes, int count)
{
	struct node *now = build(bytes, 20);

	for (int i = 0; i < count; i++) {
		struct node *next = build(bytes, 20);

		drop(now);
		now = next;
	}
	return rollup_kb("Anonymous:");
}

static long trims(int count)
{
	struct timespec now;

	for (int i = 0; i < count; i++) {
		free(malloc(500)); /* of 16 MB in all the process would wake up */
		malloc_trim(0);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (now.tv_sec * 1000000 + now.tv_nsec / 1000) / count;
}

static long child(void)
{
	free(malloc(100));
	if (fork()) {
		wait(NULL);
		exit(0);
	}
	free(malloc(100));
	return rollup_kb("Private_Dirty:");
}

#define LIST_BYTES (100 << 10)
#define LISTS_MOST 1000

static long worker(long bytes)
{
	static struct node *lists[LISTS_MOST];
	static void *kept[LISTS_MOST];
	struct node *volatile parents = build(5 << 19, 200);

	if (fork()) {
		wait(NULL);
		exit(0);
	}
	for (long i = 0; i < bytes / LIST_BYTES && i < LISTS_MOST; i++) {
		lists[i] = build(LIST_BYTES, 200);
		kept[i] = malloc(100);
	}
	for (int i = 0; i < LISTS_MOST; i++)
		drop(lists[i]);
	sleep(3);
	return parents && kept[0] ? rollup_kb("Anonymous:") : 0;
}

static long frees(size_t size, long bytes, int count)
{
	long blocks_count = bytes / (long)size;
	char **blocks = calloc((size_t)blocks_count, sizeof(*blocks));

	if (!blocks)
		abort();
	for (int round = 0; round < count; round++) {
		for (long i = 0; i < blocks_count; i++) {
			blocks[i] = malloc(size);
			memset(blocks[i], 1, size);
		}
		for (long i = 0; i < blocks_count; i++)
			free(blocks[i]);
	}
	free(blocks);
	return rollup_kb("Anonymous:");
}

static long page_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* Slowly: who allocates much in a short time is not on libc's malloc for long. */
static long grows(void)
{
	for (int round = 0; round < 50; round++) {
		char *buffer = NULL;

		for (size_t bytes = 4096; bytes <= 600000; bytes += 4096) {
			buffer = realloc(buffer, bytes);
			memset(buffer + bytes - 4096, 1, 4096);
		}
		free(buffer);
		usleep(20000);
	}
	return page_faults();
}

static long rises(void)
{
	for (size_t bytes = 200000; bytes < 500000; bytes += 64) {
		char *block = malloc(bytes);

		memset(block, 1, bytes);
		free(block);
	}
	return page_faults();
}

static long tuned(void)
{
	char *blocks[21];

	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 21; i++)
			if ((blocks[i] = malloc(i ? 100000 : 150000)))
				memset(blocks[i], 1, 100000);
		for (int i = 0; i < 21; i++)
			free(blocks[i]);
		usleep(20000);
	}
	return page_faults();
}

static void *make_larger(void *unused)
{
	(void)unused;
	for (size_t bytes = 130 << 10; bytes < 1250 << 10; bytes += 1024)
		free(malloc(bytes));
	return NULL;
}

static long changes_environment(void)
{
	pthread_t thread;
	char name[32];

	if (pthread_create(&thread, NULL, make_larger, NULL) != 0)
		abort();
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 200; i++) {
			snprintf(name, sizeof(name), "NAME_%d", i);
			setenv(name, "value", 1);
		}
		clearenv();
	}
	pthread_join(thread, NULL);
	return 0;
}

static long child_frees(size_t size, long bytes, int count)
{
	int ends[2];
	long kb = 0;
	pid_t pid;

	(void)frees(size, bytes, count);
	if (pipe(ends) != 0)
		abort();
	pid = fork();
	if (pid == 0) {
		kb = frees(size, bytes, count);
		_exit(write(ends[1], &kb, sizeof(kb)) != sizeof(kb));
	}
	if (read(ends[0], &kb, sizeof(kb)) != sizeof(kb) || waitpid(pid, NULL, 0) != pid)
		abort();
	return kb;
}

#define TUPLE_BYTES 64
#define ENTRY_BYTES 24
#define BLOCK_MOST  ((size_t)8 << 20)

static long sorts(long count)
{
	size_t block_bytes = 32u << 10, used = block_bytes, capacity = 4096;
	char *entries, *block = NULL;
	long before;

	if (!build(6 << 20, 1000) || !(entries = malloc(capacity * ENTRY_BYTES)))
		abort();
	before = rollup_kb("Anonymous:");
	for (size_t i = 0; i < (size_t)count; i++) {
		if (used + TUPLE_BYTES > block_bytes) {
			block_bytes = block_bytes < BLOCK_MOST ? 2 * block_bytes : BLOCK_MOST;
			block = malloc(block_bytes);
			used = 0;
		}
		if (i == capacity) {
			capacity *= 2;
			entries = realloc(entries, capacity * ENTRY_BYTES);
		}
		if (!block || !entries)
			abort();
		memset(block + used, 1, TUPLE_BYTES);
		memset(entries + i * ENTRY_BYTES, 1, ENTRY_BYTES);
		used += TUPLE_BYTES;
	}
	return rollup_kb("Anonymous:") - before;
}

#define EVICTED_MOST 100000

static long evicts(long most, size_t bytes, int turns)
{
	static struct {
		char *data;
		size_t size;
	} held[EVICTED_MOST];
	int count = 0;
	long sum = 0;

	for (int i = 0; i < turns; i++) {
		size_t size = 16 + (size_t)rand() % bytes;

		while (count && (sum + (long)size > most || count == EVICTED_MOST)) {
			int out = rand() % count;

			sum -= (long)held[out].size;
			free(held[out].data);
			held[out] = held[--count];
		}
		held[count].data = malloc(size);
		memset(held[count].data, 1, size);
		held[count++].size = size;
		sum += (long)size;
	}
	return rollup_kb("Anonymous:");
}

static pthread_barrier_t is_full, is_empty;
static char **handed;
static long handed_count;

static void *free_handed(void *unused)
{
	for (;;) {
		pthread_barrier_wait(&is_full);
		for (long i = 0; i < handed_count; i++)
			free(handed[i]);
		pthread_barrier_wait(&is_empty);
	}
	return unused;
}

static long handed_over(long bytes, int count)
{
	pthread_t thread;

	handed_count = bytes / 200;
	handed = calloc((size_t)handed_count, sizeof(*handed));
	pthread_barrier_init(&is_full, NULL, 2);
	pthread_barrier_init(&is_empty, NULL, 2);
	if (!handed || pthread_create(&thread, NULL, free_handed, NULL) != 0)
		abort();
	for (int round = 0; round < count; round++) {
		for (long i = 0; i < handed_count; i++)
			handed[i] = memset(malloc(200), 1, 200);
		pthread_barrier_wait(&is_full);
		pthread_barrier_wait(&is_empty);
	}
	sleep(2);
	return rollup_kb("Anonymous:");
}

static void *fill_handed(void *unused)
{
	for (long i = 0; i < handed_count; i++)
		handed[i] = memset(malloc(200), 1, 200);
	return unused;
}

static long left_behind(long bytes)
{
	pthread_t thread;

	handed_count = bytes / 200;
	handed = calloc((size_t)handed_count, sizeof(*handed));
	if (!handed || pthread_create(&thread, NULL, fill_handed, NULL) != 0)
		abort();
	pthread_join(thread, NULL);
	for (long i = 0; i < handed_count; i++)
		free(handed[i]);
	free(handed);
	return rollup_kb("Anonymous:");
}

static long cuts(void)
{
	char *flagged = malloc(250000), *blocks[14];

	if (!flagged || madvise(flagged + 8192 - (uintptr_t)flagged % 4096, 4096, MADV_DONTDUMP))
		abort();
	for (int i = 0; i < 14; i++) {
		blocks[i] = malloc(250000);
		memset(blocks[i], 1, 250000);
		blocks[i] = realloc(blocks[i], 100);
	}
	return rollup_kb("Anonymous:");
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "reloads") == 0)
		printf("%ld\n", reloads(atol(argv[2]) << 20, atoi(argv[3])));
	else if (argc == 3 && strcmp(argv[1], "trims") == 0)
		printf("%ld\n", trims(atoi(argv[2])));
	else if (argc == 2 && strcmp(argv[1], "child") == 0)
		printf("%ld\n", child());
	else if (argc == 3 && strcmp(argv[1], "worker") == 0)
		printf("%ld\n", worker(atol(argv[2]) << 20));
	else if (argc == 2 && strcmp(argv[1], "grows") == 0)
		printf("%ld\n", grows());
	else if (argc == 2 && strcmp(argv[1], "rises") == 0)
		printf("%ld\n", rises());
	else if (argc == 2 && strcmp(argv[1], "setenv") == 0)
		printf("%ld\n", changes_environment());
	else if (argc == 2 && strcmp(argv[1], "tuned") == 0)
		printf("%ld\n", tuned());
	else if (argc == 5 && strcmp(argv[1], "frees") == 0)
		printf("%ld\n", frees((size_t)atol(argv[2]), atol(argv[3]) << 20, atoi(argv[4])));
	else if (argc == 5 && strcmp(argv[1], "child_frees") == 0)
		printf("%ld\n",
		       child_frees((size_t)atol(argv[2]), atol(argv[3]) << 20, atoi(argv[4])));
	else if (argc == 3 && strcmp(argv[1], "sorts") == 0)
		printf("%ld\n", sorts(atol(argv[2])));
	else if (argc == 5 && strcmp(argv[1], "evicts") == 0)
		printf("%ld\n", evicts(atol(argv[2]) << 20, (size_t)atol(argv[3]), atoi(argv[4])));
	else if (argc == 4 && strcmp(argv[1], "handed_over") == 0)
		printf("%ld\n", handed_over(atol(argv[2]) << 20, atoi(argv[3])));
	else if (argc == 2 && strcmp(argv[1], "cuts") == 0)
		printf("%ld\n", cuts());
	else if (argc == 3 && strcmp(argv[1], "left_behind") == 0)
		printf("%ld\n", left_behind(atol(argv[2]) << 20));
	else
		return 2;
	return 0;
}
