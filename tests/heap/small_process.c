/* small_process.c -- what a small process holds. Prints one number.
 *   reloads MB COUNT  builds a list of MB in small blocks, replaces it COUNT times, the new one
 *                     first; kB of anonymous memory
 *   trims COUNT       calls malloc_trim after each of COUNT pairs; us of CPU time for each
 *   child             forks; kB that the child has written
 *   worker MB         forks beside blocks of its own; the child builds lists of MB in all, keeps a
 *                     block behind each, drops them and lies idle; kB of anonymous memory */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	else
		return 2;
	return 0;
}
