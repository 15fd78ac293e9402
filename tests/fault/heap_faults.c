/* heap_faults.c -- a program that expects the machine to refuse: it prints what it got, and must
 * print the same with the shim as without. Its arguments are limits to set upon itself, in order:
 *   as MB     address space from here on (above what is mapped already)
 *   nproc     no more threads or processes (needs a user that is not root)
 *   fds       no descriptor but the three
 *   data      as RLIMIT_DATA, 64 MB
 *   stack     the smallest stack for new threads */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mapped.h"

/* 100 MB: more than any limit of the tests. */
#define MOST 10000u

static char *blocks[MOST];

static void limit(int what, rlim_t value)
{
	struct rlimit both = {value, value};

	if (setrlimit(what, &both) != 0)
		printf("setrlimit: %s\n", strerror(errno));
}

static void *nothing(void *argument)
{
	free(malloc(1000));
	return argument;
}

static void set_limits(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "as") == 0 && i + 1 < argc)
			limit(RLIMIT_AS, mapped_bytes() + ((rlim_t)atoi(argv[++i]) << 20));
		else if (strcmp(argv[i], "nproc") == 0)
			limit(RLIMIT_NPROC, 0);
		else if (strcmp(argv[i], "fds") == 0)
			limit(RLIMIT_NOFILE, 3);
		else if (strcmp(argv[i], "data") == 0)
			limit(RLIMIT_DATA, 64 << 20);
	}
}

/* Allocates until refused or until the table is full; what was given must hold what is written into
 * it. */
static void fill_up(void)
{
	unsigned count = 0, wrong = 0;

	for (; count < MOST; count++) {
		blocks[count] = malloc(10000);
		if (!blocks[count])
			break;
		memset(blocks[count], (int)count, 10000);
	}
	int code = errno;
	for (unsigned i = 0; i < count; i++)
		for (unsigned at = 0; at < 10000; at += 999)
			wrong += blocks[i][at] != (char)i;
	printf("%s, %u wrong\n",
	       count == MOST    ? "all given"
	       : code == ENOMEM ? "refused with ENOMEM"
				: "refused oddly",
	       wrong);
	for (unsigned i = 0; i < count; i++)
		free(blocks[i]);
	/* What was freed can be had again, the rest still works. */
	unsigned again = 0;
	for (; again < count / 2; again++)
		if (!(blocks[again] = malloc(10000)))
			break;
	printf("half of it again: %s\n", again == count / 2 ? "yes" : "no");
	for (unsigned i = 0; i < again; i++)
		free(blocks[i]);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	static char out[4096];

	setvbuf(stdout, out, _IOFBF, sizeof(out));
	set_limits(argc, argv);
	fill_up();
	int code = pthread_create(&thread, NULL, nothing, NULL);
	printf("pthread_create: %s\n", code ? strerror(code) : "well");
	if (code == 0)
		pthread_join(thread, NULL);
	/* Long enough for a worker to have tried, and to have tried again. */
	usleep(300000);
	fill_up();
	return 0;
}
