/* break_in_thread.c -- one thread takes pages by sbrk, or by brk, while three others make and free
 * blocks of up to 60 kB. Over libc those have arenas of their own, which leave the program break
 * alone. Fails if a page or a block holds what its owner did not write. "handler": the break is
 * read in a handler that interrupts one of the three. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGES   3000
#define PAGE    4096
#define STEP    64 /* any block is larger */
#define BLOCKS  24
#define WORKERS 3

static atomic_bool is_over;
static bool by_brk;

static char *take_page(void)
{
	char *page = sbrk(by_brk ? 0 : PAGE);

	return !by_brk || brk(page + PAGE) == 0 ? page : (char *)-1;
}

static void fail(const char *what)
{
	fprintf(stderr, "%s was overwritten\n", what);
	_exit(1);
}

static void *take_pages(void *unused)
{
	static char *pages[PAGES];

	(void)unused;
	for (int i = 0; i < PAGES; i++) {
		pages[i] = take_page();
		if (pages[i] == (char *)-1)
			_exit(77);
		memset(pages[i], i, PAGE);
	}
	for (int i = 0; i < PAGES; i++)
		for (int at = 0; at < PAGE; at += STEP)
			if (pages[i][at] != (char)i)
				fail("a page");
	is_over = true;
	return NULL;
}

static void *turn_over(void *seed)
{
	unsigned random = *(unsigned *)seed;
	char *blocks[BLOCKS] = {NULL};

	while (!is_over) {
		int at = (int)((random >> 8) % BLOCKS);
		size_t bytes = 1000 + (random >> 10) % 60000;

		random = random * 1103515245 + 12345;
		if (blocks[at] && blocks[at][999] != at)
			fail("a block");
		free(blocks[at]);
		blocks[at] = malloc(bytes);
		if (blocks[at])
			memset(blocks[at], at, bytes);
	}
	for (int at = 0; at < BLOCKS; at++)
		free(blocks[at]);
	return NULL;
}

static void read_break(int sig)
{
	int kept = errno;

	(void)sig;
	if (sbrk(0) == (void *)-1)
		_exit(1);
	errno = kept;
}

static void interrupt(pthread_t thread)
{
	signal(SIGUSR2, read_break);
	for (int i = 0; i < 100; i++) {
		usleep(100);
		pthread_kill(thread, SIGUSR2);
	}
	is_over = true;
}

int main(int argc, char **argv)
{
	unsigned seeds[WORKERS] = {1, 2, 3};
	pthread_t threads[WORKERS + 1];

	by_brk = argc > 1 && strcmp(argv[1], "brk") == 0;
	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&threads[i], NULL, turn_over, &seeds[i]) != 0)
			return 77;
	if (argc > 1 && strcmp(argv[1], "handler") == 0)
		interrupt(threads[0]);
	else if (pthread_create(&threads[WORKERS], NULL, take_pages, NULL) == 0)
		pthread_join(threads[WORKERS], NULL);
	else
		return 77;
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
