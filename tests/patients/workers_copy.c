/* workers_copy.c -- three workers forked with a table of 60 MB, each of which counts its visits in
 * the table itself: every page is copied for every worker. */
#include <signal.h>
#include <sys/prctl.h>

#include "patient.h"

enum { WORKERS = 3, ENTRIES = 60 * 16384 };

struct entry {
	uint64_t key, visits;
	char value[48];
};

static void visit(struct entry *table)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < ENTRIES; i++)
		table[i].visits++;
	for (size_t i = 0;; i = (i + 4001) % ENTRIES) {
		table[i].visits++;
		free(filled(100));
		usleep(1000);
	}
}

int main(void)
{
	pid_t workers[WORKERS];
	struct entry *table = must(malloc(ENTRIES * sizeof(*table)));

	memset(table, 1, ENTRIES * sizeof(*table));
	for (int i = 0; i < WORKERS; i++)
		if ((workers[i] = fork()) == 0)
			visit(table);
	sleep(1);
	ready();
	while (goes_on(100))
		;
	for (int i = 0; i < WORKERS; i++)
		kill(workers[i], SIGKILL);
	return 0;
}
