/* growth.c -- what a malloc and a trim cost while a heap of a given size stands: --threads threads,
 * together --blocks blocks of --low to --high bytes, or as many as make --heap-mib. First each
 * thread makes its share. Then pairs of malloc and free of mixed small sizes run in all threads at
 * once (CPU time of a pair: there are more threads than cores). Then each thread frees a quarter of
 * its share, in pieces of 1 MB, as objects that were made together die together, and the main
 * thread asks for a trim (--how).
 *
 * --pause: says "ready" between the pairs and the freeing, and goes on with a few pairs every 10 ms
 * until a line comes, so that ticks of the worker can be counted from outside. The list of blocks
 * and the ballast that keeps the shim awake in a small heap (--ballast-mib) are mappings of their
 * own, no part of the heap. */
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

#include "trim.h"
#include "workload.h"

#define THREADS_MAX 256u
#define WINDOW      64u
#define BATCHES     9u
#define PIECE_BYTES ((size_t)1 << 20)
#define PAIR_LOW    16u
#define PAIR_HIGH   1024u

struct worker {
	pthread_t thread;
	uint64_t state;
	char **blocks; /* a part of the list */
	size_t count;
	double batch_ns[BATCHES]; /* CPU time of a pair */
};

static struct worker workers[THREADS_MAX];
static size_t threads, low, high, pairs_each;
/* between making, pairs, freeing; the main thread is a worker as well */
static pthread_barrier_t step;
static bool is_paused;

static void *map_pages(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (pages == MAP_FAILED) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	return pages;
}

static void make_share(struct worker *worker)
{
	for (size_t i = 0; i < worker->count; i++) {
		size_t bytes = random_between(&worker->state, low, high);

		worker->blocks[i] = must_alloc(bytes);
		touch_block(worker->blocks[i], bytes);
	}
}

static void free_quarter(struct worker *worker)
{
	size_t piece = 2 * PIECE_BYTES / (low + high) + 1;

	if (piece > worker->count / 4 + 1)
		piece = worker->count / 4 + 1;
	for (size_t i = 0; i < worker->count; i++)
		if (i / piece % 4 == 0)
			free(worker->blocks[i]);
}

static void run_pairs(uint64_t *state, size_t pairs)
{
	void *window[WINDOW] = {NULL};

	for (size_t i = 0; i < pairs; i++) {
		free(window[i % WINDOW]);
		window[i % WINDOW] = must_alloc(random_between(state, PAIR_LOW, PAIR_HIGH));
		keep_block(window[i % WINDOW]);
	}
	for (size_t i = 0; i < WINDOW; i++)
		free(window[i]);
}

static void time_pairs(struct worker *worker)
{
	run_pairs(&worker->state, pairs_each); /* caches are filled once */
	for (size_t i = 0; i < BATCHES; i++) {
		double before = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);

		run_pairs(&worker->state, pairs_each);
		worker->batch_ns[i] =
			(cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - before) * 1e9 / (double)pairs_each;
	}
}

/* The program is alive and its heap as large as before: a tick of the worker looks, and finds
 * nothing to do. */
static void pause_until_line(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t state = 4711;

	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		exit(1);
	while (poll(&input, 1, 10) == 0)
		run_pairs(&state, 2000);
}

static void *live(void *argument)
{
	struct worker *worker = argument;

	make_share(worker);
	pthread_barrier_wait(&step);
	time_pairs(worker);
	pthread_barrier_wait(&step);
	if (is_paused && worker == workers)
		pause_until_line();
	pthread_barrier_wait(&step);
	free_quarter(worker);
	pthread_barrier_wait(&step);
	return NULL;
}

/* The others stay until the trim is over: caches of dead threads would be no part of it. */
static void *live_on(void *argument)
{
	live(argument);
	pthread_barrier_wait(&step);
	return NULL;
}

static void share_out(size_t blocks)
{
	char **list = map_pages(blocks * sizeof *list + 1);

	for (size_t i = 0; i < threads; i++) {
		size_t from = blocks * i / threads;

		workers[i].state = 1234567 + i;
		workers[i].blocks = list + from;
		workers[i].count = blocks * (i + 1) / threads - from;
	}
}

static double median_pair_ns(void)
{
	static double all[THREADS_MAX * BATCHES];

	for (size_t i = 0; i < threads; i++)
		memcpy(all + i * BATCHES, workers[i].batch_ns, sizeof workers[i].batch_ns);
	return median_of(all, threads * BATCHES);
}

static bool start_others(void)
{
	pthread_barrier_init(&step, NULL, (unsigned)threads);
	for (size_t i = 1; i < threads; i++)
		if (pthread_create(&workers[i].thread, NULL, live_on, &workers[i]) != 0)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	size_t ballast = option_count(argc, argv, "--ballast-mib", 64) << 20;
	size_t heap = option_count(argc, argv, "--heap-mib", 64) << 20;
	struct trim trim = {.wall_s = 0};

	threads = option_count(argc, argv, "--threads", 1);
	low = option_count(argc, argv, "--low", 16);
	high = option_count(argc, argv, "--high", 1024);
	pairs_each = option_count(argc, argv, "--pairs", 400000) / (threads ? threads : 1) + 1;
	is_paused = option_count(argc, argv, "--pause", 0) != 0;
	size_t blocks =
		option_count(argc, argv, "--blocks", low + high ? 2 * heap / (low + high) : 0);
	if (threads < 1 || threads > THREADS_MAX || low < 1 || high < low || blocks < threads)
		return 2;
	touch_block(map_pages(ballast + 1), ballast + 1);
	share_out(blocks);
	if (!start_others())
		return 1;
	uint64_t begun = now_ns();
	live(workers);
	double work_s = seconds_since(begun), full = rss_mib();
	ask_for_trim(option_text(argc, argv, "--how", "trim"), &trim);
	printf("{\"work_s\": %.3f, \"blocks\": %zu, \"rss_mib\": %.1f, \"malloc_ns\": %.2f, "
	       "\"trim_ms\": %.3f, "
	       "\"trim_cpu_ms\": %.3f",
	       work_s, blocks, full, median_pair_ns(), trim.wall_s * 1e3, trim.cpu_s * 1e3);
	print_trim(&trim);
	puts("}");
	fflush(stdout);
	_exit(0);
}
