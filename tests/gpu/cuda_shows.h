/* cuda_shows.h -- what programs share that print the answers of a driver and whether a call was
 * slow ("slow": it took longer than 100 ms). */
#ifndef CUDA_SHOWS_H
#define CUDA_SHOWS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "cuda_client.h"

#define MB ((size_t)1 << 20)

static void *context;
static void *stream;

static inline double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1000 + (double)now.tv_nsec / 1e6;
}

#define SHOW(call)                                                                                 \
	({                                                                                         \
		double begin_ = now_ms();                                                          \
		int result_ = (call);                                                              \
                                                                                                   \
		printf("%s: %d%s\n", #call, result_, now_ms() - begin_ > 100 ? " slow" : "");      \
		result_;                                                                           \
	})

static inline uint64_t take(size_t bytes)
{
	uint64_t dptr = 0;

	OK(cu.cuMemAlloc_v2(&dptr, bytes));
	return dptr;
}

/* Freed, and known to be ready. */
static inline void cache(size_t bytes)
{
	uint64_t dptr = take(bytes);

	OK(cu.cuMemFree_v2(dptr));
	dptr = take(bytes);
	OK(cu.cuMemFree_v2(dptr));
}

/* A host function that waits for the program, 1 s at most: ten times what is slow. */
static _Atomic bool is_released;

static void wait_for_release(void *unused)
{
	(void)unused;
	for (int i = 0; i < 1000 && !atomic_load(&is_released); i++)
		usleep(1000);
}

static inline void let_wait(void)
{
	void *blocking;

	OK(cu.cuStreamCreate(&blocking, 0));
	OK(cu.cuLaunchHostFunc(blocking, wait_for_release, NULL));
}

struct cuda_word {
	const char *word;
	void (*run)(void);
};

/* Runs the word in a context of its own, with a non-blocking stream. */
static inline int cuda_run_word(int argc, char **argv, const struct cuda_word *words, size_t count)
{
	if (argc != 2 || cuda_client_start("global") != 0)
		return 2;
	OK(cu.cuInit(0));
	OK(cu.cuCtxCreate_v2(&context, 0, 0));
	OK(cu.cuStreamCreate(&stream, 1));
	for (size_t i = 0; i < count; i++)
		if (strcmp(argv[1], words[i].word) == 0)
			words[i].run();
	atomic_store(&is_released, true);
	printf("done\n");
	return 0;
}

#endif
