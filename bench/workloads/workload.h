/* workload.h -- what the C workloads share: time, faults, resident memory, a fixed random sequence,
 * arguments. Nothing here allocates, so that a figure never contains its own measurement. Header
 * only, since each workload is one file; C++ can include it. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024.0 * 1024.0)

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void sleep_seconds(double seconds)
{
	time_t whole = (time_t)seconds;
	struct timespec left = {whole, (long)((seconds - (double)whole) * 1e9)};

	while (nanosleep(&left, &left) != 0)
		;
}

/* With --idle S a workload of the suite says when its work is over, and does nothing for S seconds:
 * what it holds then is watched from outside. Without, it goes on at once, and says nothing.
 * Written around stdio, whose buffer is a block of the heap. */
static inline void go_idle(double seconds)
{
	char line[80];
	int length = snprintf(line, sizeof line, "{\"event\": \"idle\", \"time\": %.6f}\n",
			      (double)now_ns() / 1e9);

	if (seconds <= 0)
		return;
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		exit(1);
	sleep_seconds(seconds);
}

static inline double seconds_since(uint64_t from_ns)
{
	return (double)(now_ns() - from_ns) / 1e9;
}

/* The number after `key` in a /proc file of the process, 0 when there is none. */
static inline long proc_number(const char *path, const char *key)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	if (length <= 0)
		return 0;
	text[length] = '\0';
	const char *found = strstr(text, key);
	return found ? strtol(found + strlen(key), NULL, 10) : 0;
}

static inline double rss_mib(void)
{
	return (double)proc_number("/proc/self/status", "VmRSS:") / 1024.0;
}

static inline double peak_mib(void)
{
	return (double)proc_number("/proc/self/status", "VmHWM:") / 1024.0;
}

static inline long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* xorshift64*: the same sequence on every machine. The state must not be 0. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

static inline size_t random_between(uint64_t *state, size_t low, size_t high)
{
	return low + (size_t)(next_random(state) >> 11) % (high - low + 1);
}

/* Keeps the compiler from seeing that a block goes unused. */
static inline void keep_block(void *block)
{
	__asm__ volatile("" : : "g"(block) : "memory");
}

/* Writes a whole block, as a program that wanted the memory would. */
static inline void touch_block(void *block, size_t bytes)
{
	memset(block, 0x5a, bytes);
	keep_block(block);
}

static inline void *must_alloc(size_t bytes)
{
	void *block = malloc(bytes);

	if (!block) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	return block;
}

/* The value of an option given as "--name value", else `otherwise`. */
static inline const char *option_text(int argc, char **argv, const char *name,
				      const char *otherwise)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return argv[i + 1];
	return otherwise;
}

static inline double option_number(int argc, char **argv, const char *name, double otherwise)
{
	const char *text = option_text(argc, argv, name, NULL);

	return text ? strtod(text, NULL) : otherwise;
}

static inline size_t option_count(int argc, char **argv, const char *name, size_t otherwise)
{
	const char *text = option_text(argc, argv, name, NULL);

	return text ? (size_t)strtoull(text, NULL, 10) : otherwise;
}

static inline int compare_doubles(const void *left, const void *right)
{
	const double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* The median; sorts the values. */
static inline double median_of(double *values, size_t count)
{
	qsort(values, count, sizeof *values, compare_doubles);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

#endif
