/* stall.c -- how long another thread's malloc and free wait while the heap is trimmed. The heap:
 * 200,000 blocks (--blocks) of 10 kB, 1.9 GB, of which 1 in 20 stays. The main thread has built it
 * and is the prober, so that it shares the arena being trimmed (a thread with an arena of its own
 * would hardly notice); a second thread asks for the trim. Each pair of malloc and free is timed;
 * the same is then done for an equally long time without a trim, because preemption by the kernel
 * looks just like a stall. For the same reason the longest pair in which the prober went to sleep
 * by itself, that is, waited for a lock, is given apart (wait_ms): preemption is not in it. */
#include <pthread.h>
#include <stdatomic.h>

#include "trim.h"
#include "workload.h"

#define BLOCK_BYTES 10000u
#define KEEP_EVERY  20u
#define BUCKETS     1024u
/* pairs longer than this are asked whether they slept; asking all would be the cost */
#define SLOW_NS 50000u

/* OFF until the trim, TRIM, then QUIET for as long, then END. */
enum phase { PHASE_OFF, PHASE_QUIET, PHASE_TRIM, PHASE_END, PHASES = PHASE_END };

/* Times by size: 16 buckets for each power of two. */
struct tally {
	double total_ns;
	double bucket_ns[BUCKETS];
	uint64_t worst_ns;
	uint64_t worst_wait_ns;
	uint64_t count;
	uint64_t buckets[BUCKETS];
};

struct probe {
	const char *label;
	size_t bytes;
};

static const struct probe probes[] = {
	{"64B", 64}, {"5kB", 5000}, {"60kB", 60000}, {"2MB", 2 << 20}};
static struct tally tallies[PHASES];
static void **blocks;
static size_t blocks_count;
/* written by the trimmer; the prober files each pair under it, no other data hangs on it */
static atomic_int phase;
static const char *how;
/* the latest; its CPU time without the prober's, who is at work all the while */
static struct trim trim;
static pthread_t prober;

static size_t bucket_of(uint64_t ns)
{
	if (ns < 16)
		return (size_t)ns;
	unsigned power = 63u - (unsigned)__builtin_clzll(ns);
	size_t bucket = (power - 3) * 16u + (size_t)((ns >> (power - 4)) & 15u);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The upper edge of a bucket. */
static double bucket_ns(size_t bucket)
{
	if (bucket < 16)
		return (double)bucket;
	return (double)(((uint64_t)(bucket % 16) + 17) << (bucket / 16 - 1));
}

static double percentile_ns(const struct tally *tally, double share)
{
	uint64_t wanted = (uint64_t)((double)tally->count * share), seen = 0;

	for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
		seen += tally->buckets[bucket];
		if (seen > wanted)
			return bucket_ns(bucket);
	}
	return (double)tally->worst_ns;
}

/* What 1 in 1000 of those exceeds who come at a random moment: who comes during a pair waits for
 * the rest of it, so that a pair of 100 ms weighs a million times as much as one of 100 ns. By
 * pairs, it would be one among a million. */
static double arrival_percentile_ns(const struct tally *tally, double share)
{
	double allowed = tally->total_ns * (1 - share), low = 0, high = (double)tally->worst_ns;

	for (int halving = 0; halving < 60 && high - low > 0.5; halving++) {
		double middle = (low + high) / 2, above = 0;

		for (size_t bucket = 0; bucket < BUCKETS; bucket++)
			if (tally->buckets[bucket]) {
				double mean =
					tally->bucket_ns[bucket] / (double)tally->buckets[bucket];
				above += mean > middle
						 ? (mean - middle) * (double)tally->buckets[bucket]
						 : 0;
			}
		*(above > allowed ? &low : &high) = middle;
	}
	return high;
}

/* Whether this thread has gone to sleep by itself since it was asked last. */
static bool has_slept(void)
{
	static long before;
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	bool slept = usage.ru_nvcsw != before;
	before = usage.ru_nvcsw;
	return slept;
}

static void file_pair(enum phase before, enum phase after, uint64_t ns)
{
	/* A pair may have begun before the trim and ended after it: the longest of all. */
	bool is_during = before == PHASE_TRIM || after == PHASE_TRIM ||
			 (before == PHASE_OFF && after != PHASE_OFF);
	enum phase where = is_during ? PHASE_TRIM : before;
	bool waited = ns > SLOW_NS && has_slept();

	if (where == PHASE_END)
		return;
	struct tally *tally = &tallies[where];
	if (waited && ns > tally->worst_wait_ns)
		tally->worst_wait_ns = ns;
	tally->worst_ns = ns > tally->worst_ns ? ns : tally->worst_ns;
	tally->count++;
	tally->buckets[bucket_of(ns)]++;
	tally->bucket_ns[bucket_of(ns)] += (double)ns;
	tally->total_ns += (double)ns;
}

static void probe_until_end(size_t bytes)
{
	enum phase before = PHASE_OFF;

	has_slept();
	while (before != PHASE_END) {
		uint64_t from = now_ns();
		volatile char *block = must_alloc(bytes);

		block[0] = 1;
		keep_block((void *)(uintptr_t)block);
		free((void *)(uintptr_t)block);
		uint64_t ns = now_ns() - from;
		enum phase after = (enum phase)atomic_load_explicit(&phase, memory_order_relaxed);
		file_pair(before, after, ns);
		before = after;
	}
}

static void *run_trimmer(void *unused)
{
	clockid_t prober_clock;

	(void)unused;
	if (pthread_getcpuclockid(prober, &prober_clock) != 0)
		exit(1);
	sleep_seconds(0.05);
	atomic_store(&phase, PHASE_TRIM);
	uint64_t from = now_ns();
	double prober_before = cpu_seconds(prober_clock);
	ask_for_trim(how, &trim);
	trim.cpu_s -= cpu_seconds(prober_clock) - prober_before;
	double phase_s = seconds_since(from);
	atomic_store(&phase, PHASE_QUIET);
	sleep_seconds(phase_s);
	atomic_store(&phase, PHASE_END);
	return NULL;
}

static void build_heap(void)
{
	for (size_t i = 0; i < blocks_count; i++) {
		blocks[i] = must_alloc(BLOCK_BYTES);
		touch_block(blocks[i], BLOCK_BYTES);
	}
	for (size_t i = 0; i < blocks_count; i++) {
		if (i % KEEP_EVERY == 0)
			continue;
		free(blocks[i]);
		blocks[i] = NULL;
	}
}

static void drop_heap(void)
{
	for (size_t i = 0; i < blocks_count; i++) {
		free(blocks[i]);
		blocks[i] = NULL;
	}
}

static void probe_once(const struct probe *probe)
{
	pthread_t trimmer;

	build_heap();
	atomic_store(&phase, PHASE_OFF);
	if (pthread_create(&trimmer, NULL, run_trimmer, NULL) != 0)
		exit(1);
	probe_until_end(probe->bytes);
	pthread_join(trimmer, NULL);
	drop_heap();
}

static void print_tally(const char *name, const char *label, const struct tally *tally)
{
	printf(", \"%s_worst_ms_%s\": %.4f", name, label, (double)tally->worst_ns / 1e6);
	printf(", \"%s_wait_ms_%s\": %.4f", name, label, (double)tally->worst_wait_ns / 1e6);
	printf(", \"%s_p999_us_%s\": %.3f", name, label, percentile_ns(tally, 0.999) / 1e3);
	printf(", \"%s_p999_arrival_us_%s\": %.3f", name, label,
	       arrival_percentile_ns(tally, 0.999) / 1e3);
	printf(", \"%s_pairs_%s\": %llu", name, label, (unsigned long long)tally->count);
}

int main(int argc, char **argv)
{
	size_t repeats = option_count(argc, argv, "--repeats", 2);
	struct trim all = {.wall_s = 0};
	double worst_trim_s = 0;

	prober = pthread_self();
	blocks_count = option_count(argc, argv, "--blocks", 200000);
	blocks = must_alloc(blocks_count * sizeof *blocks);
	how = option_text(argc, argv, "--how", "trim");
	printf("{\"repeats\": %zu", repeats);
	for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
		double returned_before = all.returned_mib;

		memset(tallies, 0, sizeof tallies);
		for (size_t turn = 0; turn < repeats; turn++) {
			probe_once(&probes[i]);
			worst_trim_s = trim.wall_s > worst_trim_s ? trim.wall_s : worst_trim_s;
			all.cpu_s += trim.cpu_s;
			all.returned_mib += trim.returned_mib;
		}
		/* A trim by another thread that gave nothing back was none, and has no stalls to
		 * show. */
		if (all.returned_mib - returned_before < 1)
			continue;
		print_tally("trim", probes[i].label, &tallies[PHASE_TRIM]);
		print_tally("quiet", probes[i].label, &tallies[PHASE_QUIET]);
	}
	print_trim(&all);
	printf(", \"trim_longest_ms\": %.2f, \"peak_mib\": %.1f}\n", worst_trim_s * 1e3,
	       peak_mib());
	return 0;
}
