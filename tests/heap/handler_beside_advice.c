/* handler_beside_advice.c CALL: calls madvise, mlock or mprotect on pages of a block again and
 * again, with a handler that allocates, frees and at times forks. CALL: "nohugepage", "dontdump",
 * "mlock", "mprotect". Prints "goes on" at the end. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE        4096ul
#define BLOCK_BYTES (64ul << 20)

static volatile unsigned int forks, signals;

static void handle(int number)
{
	char *block = malloc(5 << 20);

	(void)number;
	block[0] = 1;
	free(block);
	if (signals++ % 50 == 0) {
		pid_t child = fork();

		if (child == 0) {
			free(malloc(5 << 20));
			_exit(0);
		}
		while (waitpid(child, NULL, 0) != child)
			;
		forks++;
	}
}

/* Returns 0 with success. */
static int set_flag(const char *call, char *page)
{
	if (strcmp(call, "nohugepage") == 0)
		return madvise(page, PAGE, (size_t)page & PAGE ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	if (strcmp(call, "dontdump") == 0)
		return madvise(page, PAGE, MADV_DONTDUMP);
	if (strcmp(call, "mlock") == 0)
		return mlock(page, PAGE);
	return mprotect(page, PAGE, PROT_READ);
}

int main(int count, char **words)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	const struct itimerval often = {{0, 200}, {0, 200}};
	char *block = malloc(BLOCK_BYTES);
	char *first = (char *)(((uintptr_t)block + PAGE - 1) & ~(PAGE - 1));
	time_t end = time(NULL) + 3;

	if (count != 2)
		return 2;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned long at = 0; time(NULL) < end || forks < 5; at++)
		if (set_flag(words[1], first + at * 7919 % 16000 * PAGE) != 0)
			return 77;
	setitimer(ITIMER_REAL, &(const struct itimerval){0}, NULL);
	puts("goes on");
	return 0;
}
