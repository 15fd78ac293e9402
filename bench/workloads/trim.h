/* trim.h -- the ways a program can have its heap trimmed. ask_for_trim returns when the trim is over. */
#ifndef BENCH_TRIM_H
#define BENCH_TRIM_H

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>

#include "workload.h"

/* Returns once RSS has not moved for 300 ms, for trims that are only asked for; waits 10 s at most. */
static inline void wait_until_rss_rests(void)
{
	double last = rss_mib();

	for (int quiet = 0, looks = 0; quiet < 30 && looks < 1000; looks++) {
		sleep_seconds(0.01);
		double now = rss_mib();
		quiet = now < last - 0.5 || now > last + 0.5 ? 0 : quiet + 1;
		last = now;
	}
}

/* jemalloc's own control call, as its manual gives it; arena 4096 means all arenas. */
static inline void purge_jemalloc(void)
{
	int (*control)(const char *, void *, size_t *, void *, size_t);
	void *found = dlsym(RTLD_DEFAULT, "mallctl");

	if (!found) {
		fputs("no mallctl in this process\n", stderr);
		exit(1);
	}
	memcpy(&control, &found, sizeof control);
	if (control("arena.4096.purge", NULL, NULL, NULL, 0) != 0) {
		fputs("arena.4096.purge failed\n", stderr);
		exit(1);
	}
}

/* how: trim (malloc_trim), mallctl (jemalloc's purge), signal (SIGUSR1, fatal without the shim), none. */
static inline void ask_for_trim(const char *how)
{
	if (strcmp(how, "trim") == 0) {
		malloc_trim(0);
	} else if (strcmp(how, "mallctl") == 0) {
		purge_jemalloc();
	} else if (strcmp(how, "signal") == 0) {
		kill(getpid(), SIGUSR1);
		wait_until_rss_rests();
	} else if (strcmp(how, "none") != 0) {
		fprintf(stderr, "--how %s: not one of trim, mallctl, signal, none\n", how);
		exit(2);
	}
}

#endif
