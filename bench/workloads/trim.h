/* trim.h -- the ways a program can have its heap trimmed, and what that costs and gives: seconds,
 * CPU seconds, bytes. ask_for_trim returns when the trim is over. */
#ifndef BENCH_TRIM_H
#define BENCH_TRIM_H

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>

#include "workload.h"

struct trim {
	/* less the waits that are ours: for a delay of the allocator's, or to see that it is over
	 */
	double wall_s;
	double cpu_s;        /* of the whole process: an allocator may have others do the work */
	double returned_mib; /* RSS before, less RSS after */
};

static inline double cpu_seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Returns once RSS has not moved for 300 ms, for trims that are only asked for; waits 10 s at most.
 * The answer: how long it has not moved, s. */
static inline double wait_until_rss_rests(void)
{
	double last = rss_mib();
	uint64_t moved = now_ns();

	for (int quiet = 0, looks = 0; quiet < 30 && looks < 1000; looks++) {
		sleep_seconds(0.01);
		double now = rss_mib();
		bool is_quiet = now >= last - 0.5 && now <= last + 0.5;
		quiet = is_quiet ? quiet + 1 : 0;
		moved = is_quiet ? moved : now_ns();
		last = now;
	}
	return seconds_since(moved);
}

/* A call that only one allocator has; a program that lacks it was started under the wrong one.
 * `call`: a pointer to a pointer to a function of any kind. */
static inline void find_call(const char *name, void *call)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	if (!found) {
		fprintf(stderr, "no %s in this process\n", name);
		exit(1);
	}
	memcpy(call, &found, sizeof found);
}

/* As jemalloc's manual gives it; arena 4096 means all arenas. */
static inline double purge_jemalloc(void)
{
	int (*control)(const char *, void *, size_t *, void *, size_t);

	find_call("mallctl", &control);
	if (control("arena.4096.purge", NULL, NULL, NULL, 0) != 0) {
		fputs("arena.4096.purge failed\n", stderr);
		exit(1);
	}
	return 0;
}

/* It reaches the heap of the thread that calls, and those of threads that have ended; no other.
 * What it frees is only marked, and goes back with the next call after a delay (25 ms in mimalloc
 * 2.0). */
static inline double collect_mimalloc(void)
{
	void (*collect)(bool);
	uint64_t asleep;
	double waited_s;

	find_call("mi_collect", &collect);
	collect(true);
	asleep = now_ns();
	sleep_seconds(0.05);
	waited_s = seconds_since(asleep);
	collect(true);
	return waited_s;
}

static inline double release_tcmalloc(void)
{
	void (*release)(void);

	find_call("MallocExtension_ReleaseFreeMemory", &release);
	release();
	return 0;
}

/* The shim's malloc_trim leaves most to its worker thread; mt_try_trim returns when all is done. */
static inline double trim_glibc(void)
{
	int (*whole)(void);

	*(void **)(void *)&whole = dlsym(RTLD_DEFAULT, "mt_try_trim");
	if (whole)
		(void)whole();
	else
		malloc_trim(0);
	return 0;
}

static inline double signal_shim(void)
{
	kill(getpid(), SIGUSR1);
	return wait_until_rss_rests();
}

static inline double trim_nothing(void)
{
	return 0;
}

/* how: trim (malloc_trim, or mt_try_trim), mallctl (jemalloc), mimalloc, tcmalloc, signal
 * (SIGUSR1, fatal without the shim), none. */
static inline void ask_for_trim(const char *how, struct trim *trim)
{
	static const struct {
		const char *name;
		double (*ask)(void); /* the answer: for how long of it we only waited, s */
	} ways[] = {
		{"trim", trim_glibc},           {"mallctl", purge_jemalloc},
		{"mimalloc", collect_mimalloc}, {"tcmalloc", release_tcmalloc},
		{"signal", signal_shim},        {"none", trim_nothing},
	};
	size_t way = 0;

	while (way < sizeof ways / sizeof *ways && strcmp(ways[way].name, how) != 0)
		way++;
	if (way == sizeof ways / sizeof *ways) {
		fprintf(stderr,
			"--how %s: not one of trim, mallctl, mimalloc, tcmalloc, signal, none\n",
			how);
		exit(2);
	}
	double rss_before = rss_mib(), cpu_before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t from = now_ns();
	double waited_s = ways[way].ask();
	trim->wall_s = seconds_since(from) - waited_s;
	trim->cpu_s = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
	trim->returned_mib = rss_before - rss_mib();
}

/* As members of a JSON object that has some already. Where nothing came back there is no rate to
 * give. */
static inline void print_trim(const struct trim *trim)
{
	printf(", \"trim_cpu_s\": %.5f, \"returned_mib\": %.1f", trim->cpu_s, trim->returned_mib);
	if (trim->returned_mib >= 1 && trim->cpu_s > 0)
		printf(", \"returned_mib_per_cpu_s\": %.0f", trim->returned_mib / trim->cpu_s);
}

#endif
