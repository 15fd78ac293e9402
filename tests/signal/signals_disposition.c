/* signals_disposition.c -- changes the disposition of a signal, one word a line, and prints
 * it sees.
 *   signals_disposition SIGNAL */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "signals.h"

static volatile int calls;

static void count(int sig)
{
	(void)sig;
	calls++;
}

/* As Go's runtime does it: past libc. x86-64 and aarch64 have the same layout; no restorer is
 * needed for a handler that is never to return, and ours is never called. */
static void set_raw(int sig)
{
	struct {
		sighandler_t handler;
		unsigned long flags;
		void *restorer;
		unsigned long mask;
	} act = {.handler = count};

	if (syscall(SYS_rt_sigaction, sig, &act, NULL, 8) != 0)
		abort();
}

static void obey(const char *word, int sig)
{
	struct sigaction seen;

	if (strcmp(word, "default") == 0)
		signal(sig, SIG_DFL);
	else if (strcmp(word, "handler") == 0)
		signal(sig, count);
	else if (strcmp(word, "ignore") == 0)
		signal(sig, SIG_IGN);
	else if (strcmp(word, "raw") == 0)
		set_raw(sig);
	else if (strcmp(word, "grow") == 0)
		memset(malloc(64 << 20), 1, 64 << 20);
	sigaction(sig, NULL, &seen);
	printf("%s %d\n",
	       seen.sa_handler == SIG_DFL   ? "default"
	       : seen.sa_handler == SIG_IGN ? "ignore"
	       : seen.sa_handler == count   ? "handler"
					    : "stranger",
	       calls);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char word[32];

	if (argc < 2)
		return 2;
	alarm(60);
	while (scanf("%31s", word) == 1)
		obey(word, atoi(argv[1]));
	return 0;
}
