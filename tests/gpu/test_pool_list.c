/* test_pool_list.c -- all blocks of the pool, listed while threads allocate. What a list says of
 * each block is in tests/ctl/test_snapshot.py. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/os.h"
#include "gpu/stats.h"
#include "null_driver.h"
#include "pool_fixture.h"

static enum mt_pool_mode wanted_mode = MT_POOL_POOL;

static enum mt_pool_mode mode(bool *out_waits)
{
	*out_waits = false;
	return wanted_mode;
}

static void start(void)
{
	begin_with(mode, "5000");
}

TestSuite(pool_list, .init = start, .fini = finish);

struct list {
	size_t room, count;
	struct mt_blocks_entry *blocks;
};

static void add(struct mt_block *block, void *to)
{
	struct list *list = to;

	if (!mt_gpu_stats_copy_block(block, &list->blocks[list->count]) ||
	    ++list->count < list->room)
		return;
	list->room *= 2;
	list->blocks = reallocarray(list->blocks, list->room, sizeof(*list->blocks));
}

/* All of them; the caller frees. */
static struct mt_blocks_entry *list_all(size_t *out_count)
{
	struct list list = {.room = 1024, .blocks = calloc(1024, sizeof(*list.blocks))};

	cr_assert(mt_pool_is_up());
	mt_blocks_each(add, &list);
	*out_count = list.count;
	return list.blocks;
}

/* ---- many ---- */

#define MANY 100000u

static uint64_t *allocate_many(uint32_t count)
{
	uint64_t *dptrs = calloc(count, sizeof(*dptrs));

	driver.cuMemAlloc_v2 = null_driver.cuMemAlloc_v2;
	driver.cuMemFree_v2 = null_driver.cuMemFree_v2;
	for (uint32_t i = 0; i < count; i++)
		dptrs[i] = allocate(512 + i % 64 * 512);
	return dptrs;
}

static uint64_t sum_of(const struct mt_blocks_entry *blocks, size_t count,
		       enum mt_blocks_state state)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += blocks[i].state == state ? blocks[i].held_bytes : 0;
	return sum;
}

Test(pool_list, a_hundred_thousand_blocks_come_to_what_usage_says)
{
	uint64_t *dptrs = allocate_many(MANY);
	struct mt_pool_usage usage;
	struct mt_blocks_entry *blocks;
	size_t count;

	for (uint32_t i = 0; i < MANY; i += 2)
		release(dptrs[i]);
	blocks = list_all(&count);
	mt_pool_usage(0, &usage);
	cr_expect_eq(count, MANY);
	cr_expect_eq(sum_of(blocks, count, MT_BLOCKS_LIVE), usage.allocated_bytes);
	cr_expect_eq(sum_of(blocks, count, MT_BLOCKS_PENDING), usage.pending_bytes);
	cr_expect_eq(sum_of(blocks, count, MT_BLOCKS_IDLE), usage.idle_bytes);
	free(blocks);
	free(dptrs);
}

/* ---- meanwhile ---- */

#define THREADS 4
#define KEPT    1000

static _Atomic bool is_over;

/* Of one thread of the program: how long its calls took. */
struct worker {
	pthread_t thread;
	uint64_t calls, longest_ns, slow_calls; /* slow: over 100 us */
};

static void time_call(struct worker *worker, uint64_t began_ns)
{
	uint64_t took_ns = mt_os_now_ns() - began_ns;

	worker->calls++;
	worker->slow_calls += took_ns > 100000;
	if (took_ns > worker->longest_ns)
		worker->longest_ns = took_ns;
}

static void *work(void *data)
{
	struct worker *worker = data;
	unsigned random = (unsigned)(uintptr_t)worker;

	fake_make_current(first);
	while (!atomic_load(&is_over)) {
		uint64_t began_ns = mt_os_now_ns(), dptr = 0;
		int result;

		random = random * 1103515245 + 12345;
		(void)mt_pool_alloc(&dptr, 512 + (random >> 16) % 64 * 512);
		time_call(worker, began_ns);
		began_ns = mt_os_now_ns();
		(void)mt_pool_free(dptr, &result);
		time_call(worker, began_ns);
	}
	return NULL;
}

static void start_workers(struct worker *workers, int count)
{
	atomic_store(&is_over, false);
	for (int i = 0; i < count; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
}

static void end_workers(struct worker *workers, int count)
{
	atomic_store(&is_over, true);
	for (int i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);
}

/* Each of the kept blocks, once, as it is; all others are as the workers may have them. */
static void check_list(const uint64_t *kept, const struct mt_blocks_entry *blocks, size_t count)
{
	uint64_t lowest = kept[0], highest = kept[KEPT - 1];
	size_t seen = 0;

	for (size_t i = 0; i < count; i++) {
		const struct mt_blocks_entry *block = &blocks[i];

		cr_assert(block->state < MT_BLOCKS_STATES);
		cr_assert(block->asked_bytes <= block->held_bytes &&
			  block->held_bytes <= 8192 * 4 && block->held_bytes % 512 == 0);
		if (block->base < lowest || block->base > highest)
			continue;
		cr_assert(block->state == MT_BLOCKS_LIVE && block->held_bytes == 8192);
		seen++;
	}
	cr_expect_eq(seen, KEPT);
}

Test(pool_list, what_stays_is_listed_once_while_four_threads_allocate)
{
	struct worker workers[THREADS] = {{0}};
	uint64_t kept[KEPT], until_ns;
	struct mt_pool_usage usage;
	struct mt_blocks_entry *blocks;
	size_t count;

	driver.cuMemAlloc_v2 = null_driver.cuMemAlloc_v2;
	driver.cuMemFree_v2 = null_driver.cuMemFree_v2;
	for (int i = 0; i < KEPT; i++)
		kept[i] = allocate(8192);
	start_workers(workers, THREADS);
	until_ns = mt_os_now_ns() + 500 * MT_NS_PER_MS;
	do {
		blocks = list_all(&count);
		check_list(kept, blocks, count);
		free(blocks);
	} while (mt_os_now_ns() < until_ns);
	end_workers(workers, THREADS);
	blocks = list_all(&count);
	mt_pool_usage(0, &usage);
	cr_expect_eq(sum_of(blocks, count, MT_BLOCKS_LIVE), usage.allocated_bytes);
	cr_expect_eq(sum_of(blocks, count, MT_BLOCKS_PENDING) +
			     sum_of(blocks, count, MT_BLOCKS_IDLE),
		     usage.pending_bytes + usage.idle_bytes);
	free(blocks);
}

/* The figure is for the reader; the bound holds on any machine: one call in twenty may be slow
 * because threads outnumber cores. */
Test(pool_list, a_program_thread_hardly_waits_while_a_hundred_thousand_blocks_are_listed)
{
	struct worker single = {0}, during = {0};
	uint64_t *dptrs = allocate_many(MANY);
	size_t count;

	start_workers(&single, 1);
	usleep(100000);
	end_workers(&single, 1);
	start_workers(&during, 1);
	free(list_all(&count));
	end_workers(&during, 1);
	cr_expect_geq(count, MANY);
	fprintf(stderr,
		"longest of %llu calls while listed %.1f us, %llu over 100 us; of %llu before %.1f "
		"us, %llu over 100 us\n",
		(unsigned long long)during.calls, (double)during.longest_ns / 1e3,
		(unsigned long long)during.slow_calls, (unsigned long long)single.calls,
		(double)single.longest_ns / 1e3, (unsigned long long)single.slow_calls);
	cr_expect_leq(during.slow_calls * 20, during.calls);
	free(dptrs);
}
