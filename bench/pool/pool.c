/* pool.c -- what a pool hit costs, over a driver whose functions return at once: `make bench-pool`.
 * Prints one line a figure and all of them as one JSON object at the end; the bounds are in
 * bench/bounds.py. Each figure is the least of many rounds: the machine's other work only ever
 * adds. The comparison: a list searched from its start, and the ordered tree under one lock that
 * PyTorch's cache is, without events, both as small as they can be written. */
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/lock.h"
#include "sys/os.h"
#include "gpu/pool.h"
#include "no_rescue.h"
#include "null_driver.h"

#define ROUNDS 7

/* Some turns of the scheduler each, so that threads meet, and many of them: some fall where no
 * other program runs. */
#define THREAD_PAIRS  40000
#define THREAD_ROUNDS 70

/* The JSON object, as far as it has come. */
static char json[2048];

static void figure(const char *key, const char *text, double value, const char *unit)
{
	const size_t length = strlen(json);

	printf("%-58s %9.2f %s\n", text, value, unit);
	(void)snprintf(json + length, sizeof(json) - length, "%s\"%s\": %.3f", length ? ", " : "{",
		       key, value);
}

static void check(int result)
{
	if (result != 0) {
		fprintf(stderr, "the pool answered %d\n", result);
		exit(2);
	}
}

static uint64_t pool_get(size_t bytes)
{
	uint64_t dptr;

	check(mt_pool_alloc(&dptr, bytes));
	return dptr;
}

static void pool_put(uint64_t dptr)
{
	int result = -1;

	(void)mt_pool_free(dptr, &result);
	check(result);
}

static double pairs(unsigned long count, size_t bytes)
{
	uint64_t begin = mt_os_now_ns();

	for (unsigned long i = 0; i < count; i++)
		pool_put(pool_get(bytes));
	return (double)(mt_os_now_ns() - begin) / (double)count;
}

static double least_pairs(unsigned long count, size_t bytes)
{
	double least = 1e9;

	/* Batches short enough to fall between two turns of other programs. */
	for (unsigned long batch = 0; batch < count / 5000; batch++) {
		double ns = pairs(5000, bytes);

		least = ns < least ? ns : least;
	}
	return least;
}

struct worker {
	struct CUctx_st *context;
	size_t bytes;
	double ns;
	pthread_barrier_t *barrier;
};

static void *work(void *data)
{
	struct worker *worker = data;

	null_context = worker->context;
	pthread_barrier_wait(worker->barrier);
	worker->ns = pairs(THREAD_PAIRS, worker->bytes);
	return NULL;
}

/* Each thread's own cost of a pair: wall time by the processors it had, so that threads beyond the
 * machine's count alike. */
static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double threads(int count, int contexts, long processors, double *out_median)
{
	double sums[THREAD_ROUNDS];

	for (int round = 0; round < THREAD_ROUNDS; round++) {
		pthread_t ids[16];
		struct worker workers[16];
		pthread_barrier_t barrier;
		double sum = 0;

		pthread_barrier_init(&barrier, NULL, (unsigned)count);
		for (int i = 0; i < count; i++) {
			workers[i] = (struct worker){
				(struct CUctx_st *)(uintptr_t)(0x1000 * (1 + i % contexts) +
							       i % contexts),
				4096 * (1 + (size_t)i), 0, &barrier};
			pthread_create(&ids[i], NULL, work, &workers[i]);
		}
		for (int i = 0; i < count; i++) {
			pthread_join(ids[i], NULL);
			sum += workers[i].ns;
		}
		pthread_barrier_destroy(&barrier);
		sum = sum / count * (count > processors ? (double)processors / count : 1);
		sums[round] = sum;
	}
	qsort(sums, THREAD_ROUNDS, sizeof(*sums), by_value);
	*out_median = sums[THREAD_ROUNDS / 2];
	return sums[0];
}

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_number(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* What the machine makes of the two things that a pair cannot do without, at this moment: for
 * judging the other figures. */
static void calibrate(void)
{
	struct mt_lock lock = {0};
	double lock_ns = 1e9, clock_ns = 1e9;

	for (int batch = 0; batch < 400; batch++) {
		uint64_t begin = mt_os_now_ns(), middle, end, sum = 0;

		for (int i = 0; i < 5000; i++) {
			mt_lock_lock(&lock);
			mt_lock_unlock(&lock);
		}
		middle = mt_os_now_ns();
		for (int i = 0; i < 5000; i++)
			sum += mt_os_coarse_ns();
		end = mt_os_now_ns();
		if (sum && (double)(middle - begin) / 5000 < lock_ns)
			lock_ns = (double)(middle - begin) / 5000;
		if ((double)(end - middle) / 5000 < clock_ns)
			clock_ns = (double)(end - middle) / 5000;
	}
	figure("lock_ns", "the machine now: a lock taken and dropped, uncontended", lock_ns, "ns");
	figure("clock_ns", "the machine now: a look at the coarse clock", clock_ns, "ns");
}

/* A random one of the live blocks is freed and one of its size taken. */
static double replacements(uint64_t *live, unsigned long count)
{
	double least = 1e9;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = mt_os_now_ns();

		for (int i = 0; i < 200000; i++) {
			unsigned long victim = random_number() % count;

			pool_put(live[victim]);
			live[victim] = pool_get(512 * (1 + victim % 64));
		}
		double ns = (double)(mt_os_now_ns() - begin) / 200000;

		least = ns < least ? ns : least;
	}
	return least;
}

/* ---- comparison pools: one lock, N cached blocks of different sizes, a pair takes and puts the
 * best fit back ---- */

struct cached {
	size_t bytes;
	uint64_t base;
	struct cached *next;
};
static pthread_mutex_t compare_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cached *list;
static void *tree;

static int by_size(const void *a, const void *b)
{
	const struct cached *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return x->base < y->base ? -1 : x->base > y->base;
}

static double list_pairs(size_t bytes)
{
	uint64_t begin = mt_os_now_ns();

	for (int i = 0; i < 20000; i++) {
		struct cached **link = &list, *found;

		pthread_mutex_lock(&compare_lock);
		while (*link && (*link)->bytes != bytes)
			link = &(*link)->next;
		found = *link;
		*link = found->next;
		pthread_mutex_unlock(&compare_lock);
		pthread_mutex_lock(&compare_lock);
		/* At the end, as a list in order of age has it. */
		while (*link)
			link = &(*link)->next;
		found->next = NULL;
		*link = found;
		pthread_mutex_unlock(&compare_lock);
	}
	return (double)(mt_os_now_ns() - begin) / 20000;
}

static double tree_pairs(struct cached *block)
{
	uint64_t begin = mt_os_now_ns();

	for (int i = 0; i < 200000; i++) {
		pthread_mutex_lock(&compare_lock);
		struct cached *found = *(struct cached **)tfind(block, &tree, by_size);

		tdelete(found, &tree, by_size);
		pthread_mutex_unlock(&compare_lock);
		pthread_mutex_lock(&compare_lock);
		tsearch(found, &tree, by_size);
		pthread_mutex_unlock(&compare_lock);
	}
	return (double)(mt_os_now_ns() - begin) / 200000;
}

static void compare(void)
{
	static struct cached blocks[1000];
	double list_ns = 0, tree_ns = 0;

	for (int i = 0; i < 1000; i++) {
		blocks[i] = (struct cached){512 * (size_t)(1 + i), 4096 * (uint64_t)(1 + i), list};
		list = &blocks[i];
		tsearch(&blocks[i], &tree, by_size);
	}
	for (int i = 0; i < 5; i++) {
		list_ns += list_pairs(blocks[i * 199].bytes) / 5;
		tree_ns += tree_pairs(&blocks[i * 199]) / 5;
	}
	figure("list_ns", "comparison: list of 1000 cached blocks, a pair", list_ns, "ns");
	figure("tree_ns", "comparison: tree of 1000 cached blocks under a lock, a pair", tree_ns,
	       "ns");
}

int main(int count, char **arguments)
{
	unsigned long most = count > 1 ? strtoul(arguments[1], NULL, 10) : 1000000;
	uint64_t *live = calloc(most, sizeof(*live));
	double few, many, few_random, together, together_median;
	long processors = 2;

	null_context = (struct CUctx_st *)0x1000;
	mt_pool_start(&null_driver, NULL);
	calibrate();
	figure("pair_4kB_ns", "pair, one thread, 4 kB", least_pairs(1000000, 4096), "ns");
	figure("pair_20MB_ns", "pair, one thread, 20 MB", least_pairs(1000000, 20u << 20), "ns");
	for (unsigned long i = 0; i < 100; i++)
		live[i] = pool_get(512 * (1 + i % 64));
	few = least_pairs(1000000, 4096);
	few_random = replacements(live, 100);
	for (unsigned long i = 100; i < most; i++)
		live[i] = pool_get(512 * (1 + i % 64));
	many = least_pairs(1000000, 4096);
	figure("few_ns", "pair with 100 other blocks live", few, "ns");
	figure("live", "  how many are all", (double)most, "");
	figure("many_ns", "  the same with all", many, "ns");
	figure("growth", "  growth", many / few, "x");
	figure("few_random_ns", "replacement of a random live block among 100", few_random, "ns");
	figure("many_random_ns", "replacement of a random live block among all",
	       replacements(live, most), "ns");
	mt_pool_start(&null_driver, NULL);
	together = threads(4, 2, processors, &together_median);
	figure("threads_ns", "pair, 4 threads on 2 contexts, each", together, "ns");
	figure("threads_median_ns", "  the median of its rounds", together_median, "ns");
	compare();
	free(live);
	printf("%s}\n", json);
	return 0;
}
