/* workers_read.c -- the same as it should be: three forked workers that only read the table of 60
 * MB. */
#include <signal.h>
#include <sys/prctl.h>

#include "patient.h"

enum { WORKERS = 3, WORDS = 60 * 1024 * 1024 / 8 };

static void look_up(const uint64_t *table)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0;; i = (i + 7919) % WORDS) {
		for (size_t j = 0; j < 20000; j++)
			(void)*(const volatile uint64_t *)&table[(i + j * 512) % WORDS];
		free(filled(100));
		usleep(100000);
	}
}

int main(void)
{
	pid_t workers[WORKERS];
	uint64_t *table = filled(WORDS * sizeof(*table));

	for (int i = 0; i < WORKERS; i++)
		if ((workers[i] = fork()) == 0)
			look_up(table);
	sleep(1);
	ready();
	while (goes_on(100))
		;
	for (int i = 0; i < WORKERS; i++)
		kill(workers[i], SIGKILL);
	return 0;
}
