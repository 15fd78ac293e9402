/* small_process.c -- what a small process holds. Prints one number.
 *   reloads MB COUNT  builds a list of MB in small blocks, replaces it COUNT times, the new one
 *                     first; kB of anonymous memory
 *   trims COUNT       calls malloc_trim after each of COUNT pairs; us of CPU time for each
 *   child             forks; kB that the child has written
 *   worker MB         forks beside blocks of its own; the child builds a list of MB, drops it and
 *                     lies idle; kB of its anonymous memory */
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

static struct node *build(long bytes)
{
	struct node *first = NULL;

	while (bytes > 0) {
		size_t size = 20 + (size_t)rand() % 300;
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
	struct node *now = build(bytes);

	for (int i = 0; i < count; i++) {
		struct node *next = build(bytes);

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

static long worker(long bytes)
{
	struct node *volatile parents = build(1 << 20);

	if (fork()) {
		wait(NULL);
		exit(0);
	}
	drop(build(bytes));
	sleep(3);
	return parents ? rollup_kb("Anonymous:") : 0;
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
