/* test_objects.c -- the heap for small Python objects, without Python. Each test is a process of
 * its own, with a heap of its own. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "python/objects.h"
#include "python/python_internal.h"

#define RANGE_BYTES ((size_t)256 << 20)
#define PAGE_BLOCKS (MT_OBJECT_PAGE_BYTES / 64)
#define PAGES       512u
#define BLOCKS      (PAGES * PAGE_BLOCKS)

/* The allocator that served before. */
static _Atomic unsigned int next_mallocs, next_frees;

static void *next_malloc(void *context, size_t size)
{
	(void)context;
	next_mallocs++;
	return malloc(size ? size : 1);
}

static void *next_calloc(void *context, size_t count, size_t size)
{
	(void)context;
	next_mallocs++;
	/* a sanitizer's calloc ends the process where libc's returns NULL */
	return size && count > SIZE_MAX / size ? NULL : calloc(count, size);
}

static void *next_realloc(void *context, void *block, size_t size)
{
	(void)context;
	return realloc(block, size);
}

static void next_free(void *context, void *block)
{
	(void)context;
	next_frees++;
	free(block);
}

static struct mt_python_allocator next = {NULL, next_malloc, next_calloc, next_realloc, next_free};

static void start(void)
{
	cr_assert(mt_objects_start(RANGE_BYTES));
}

static void *take(size_t size)
{
	return mt_objects_malloc(&next, size);
}

static void give(void *block)
{
	mt_objects_free(&next, block);
}

static struct mt_object_heap_figures figures(void)
{
	struct mt_object_heap_figures now;

	mt_objects_read(&now, true);
	return now;
}

static bool enter(void)
{
	return true;
}

static void leave(void)
{
}

static uint64_t purge(void)
{
	return mt_object_pages_purge(0, enter, leave);
}

static size_t resident_bytes(void *address, size_t bytes)
{
	unsigned char pages[RANGE_BYTES / 4096];
	size_t count = 0;

	cr_assert_eq(mincore(address, bytes, pages), 0);
	for (size_t i = 0; i < bytes / 4096; i++)
		count += pages[i] & 1;
	return count * 4096;
}

static void *page_of(void *block)
{
	return (void *)((uintptr_t)block & ~(uintptr_t)4095);
}

Test(objects, blocks_are_aligned_distinct_and_keep_their_content)
{
	static unsigned char *blocks[1025][40];

	start();
	for (size_t size = 1; size <= 1024; size++) {
		for (size_t i = 0; i < 40; i++) {
			blocks[size][i] = take(size);
			cr_assert_eq((uintptr_t)blocks[size][i] % 16, 0);
			memset(blocks[size][i], (int)(size + i) & 255, size);
		}
	}
	cr_expect_eq(next_mallocs, 0, "all of them are small");
	for (size_t size = 1; size <= 1024; size++)
		for (size_t i = 0; i < 40; i++)
			for (size_t at = 0; at < size; at++)
				cr_assert_eq(blocks[size][i][at], (size + i) & 255);
}

Test(objects, large_empty_and_older_blocks_are_the_other_allocators)
{
	void *older = malloc(40);
	void *large, *empty;

	start();
	large = take(1025);
	empty = take(0);
	cr_assert(large && empty);
	cr_expect_eq(next_mallocs, 2);
	give(large);
	give(empty);
	give(older);
	cr_expect_eq(next_frees, 3);
	cr_expect_not(mt_objects_calloc(&next, SIZE_MAX, 16));
}

Test(objects, calloc_clears_what_was_used)
{
	unsigned char *block;

	start();
	block = take(100);
	memset(block, 255, 100);
	give(block);
	cr_expect_eq(mt_objects_calloc(&next, 10, 10), block, "the block that was freed last");
	for (size_t i = 0; i < 100; i++)
		cr_expect_eq(block[i], 0);
}

Test(objects, realloc_keeps_the_content_and_the_place_where_it_fits)
{
	char *block, *grown;

	start();
	block = mt_objects_realloc(&next, NULL, 60);
	strcpy(block, "content");
	cr_expect_eq(mt_objects_realloc(&next, block, 64), block);
	grown = mt_objects_realloc(&next, block, 200);
	cr_expect_neq(grown, block);
	cr_expect_str_eq(grown, "content");
	grown = mt_objects_realloc(&next, grown, 100000);
	cr_expect_str_eq(grown, "content", "in the other allocator now");
	grown = mt_objects_realloc(&next, grown, 20);
	cr_expect_str_eq(grown, "content");
	give(grown);
	cr_expect_eq(figures().live_bytes, 0);
}

Test(objects, live_and_free_bytes_are_exact)
{
	static void *blocks[BLOCKS];

	start();
	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = take(64);
	cr_expect_eq(figures().live_bytes, BLOCKS * 64);
	cr_expect_geq(figures().used_bytes, BLOCKS * 64);
	for (size_t i = 0; i < BLOCKS; i++)
		give(blocks[i]);
	cr_expect_eq(figures().live_bytes, 0);
	cr_expect_leq(figures().used_bytes, MT_OBJECT_PAGE_BYTES, "the page that is in use");
	cr_expect_geq(figures().dirty_bytes, BLOCKS * 64 - MT_OBJECT_PAGE_BYTES);
}

Test(objects, a_purge_returns_the_pages_without_blocks_and_only_those)
{
	static char *blocks[BLOCKS];
	size_t resident;

	start();
	for (size_t i = 0; i < BLOCKS; i++)
		strcpy(blocks[i] = take(64), "kept");
	/* all but one block in each eighth page */
	for (size_t i = 0; i < BLOCKS; i++)
		if (i % (8 * PAGE_BLOCKS) != 5)
			give(blocks[i]);
	resident = resident_bytes(page_of(blocks[0]), PAGES * MT_OBJECT_PAGE_BYTES);
	cr_expect_eq(resident, PAGES * MT_OBJECT_PAGE_BYTES);
	cr_expect_geq(purge(), (PAGES - PAGES / 8 - 1) * MT_OBJECT_PAGE_BYTES);
	cr_expect_eq(figures().dirty_bytes, 0);
	resident = resident_bytes(page_of(blocks[0]), PAGES * MT_OBJECT_PAGE_BYTES);
	cr_expect_leq(resident, (PAGES / 8 + 1) * MT_OBJECT_PAGE_BYTES);
	for (size_t i = 5; i < BLOCKS; i += 8 * PAGE_BLOCKS)
		cr_expect_str_eq(blocks[i], "kept");
}

Test(objects, purged_pages_serve_again_before_new_ones)
{
	static void *blocks[BLOCKS];
	uint32_t top = 0;

	start();
	for (int round = 0; round < 10; round++) {
		for (size_t i = 0; i < BLOCKS; i++)
			memset(blocks[i] = take(64), 1, 64);
		if (round == 0)
			top = mt_object_pages_top();
		for (size_t i = 0; i < BLOCKS; i++)
			give(blocks[i]);
		(void)purge();
	}
	cr_expect_leq(mt_object_pages_top(), top + 64);
}

Test(objects, the_fullest_pages_are_filled_first)
{
	static void *blocks[BLOCKS];

	start();
	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = take(64);
	/* of the first half of the pages three quarters of the blocks go, of the others one */
	for (size_t i = 0; i < BLOCKS; i++)
		if (i < BLOCKS / 2 ? i % 4 != 0 : i % 4 == 0)
			give(blocks[i]);
	for (size_t i = 0; i < BLOCKS / 8; i++) {
		void *block = take(64);

		cr_assert_geq((uintptr_t)block,
			      (uintptr_t)page_of(blocks[BLOCKS / 2 - PAGE_BLOCKS]));
	}
}

Test(objects, another_size_can_use_the_pages_of_one_that_is_gone)
{
	static void *blocks[BLOCKS];
	uint64_t before;

	start();
	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = take(64);
	for (size_t i = 0; i < BLOCKS; i++)
		give(blocks[i]);
	before = figures().dirty_bytes + figures().used_bytes;
	for (size_t i = 0; i < BLOCKS / 8; i++)
		memset(take(512), 1, 512);
	/* the pages of one group may stay with the size that is gone */
	cr_expect_leq(figures().dirty_bytes + figures().used_bytes, before + (128 << 10));
}

Test(objects, an_exhausted_range_leaves_the_rest_to_the_other_allocator)
{
	size_t count = 0;
	void *block = NULL;

	cr_assert(mt_objects_start(16 << 20));
	for (; count < (20 << 20) / 512 && next_mallocs == 0; count++)
		block = take(512);
	cr_expect_geq(count, (16 << 20) / 512 - 8);
	cr_assert(block);
	give(block);
	cr_expect_eq(next_frees, 1);
	cr_assert(take(16), "a class without a page of its own");
}

Test(objects, gives_up_the_address_space_that_it_does_not_use)
{
	char *block;
	unsigned char page;

	start();
	block = take(64);
	mt_objects_limit(64 << 20, UINT64_MAX);
	cr_expect_eq(mincore(page_of(block), 4096, &page), 0);
	cr_expect_neq(mincore((char *)page_of(block) + (32 << 20), 4096, &page), 0, "unmapped");
	for (size_t i = 0; i < (16 << 20) / 64; i++)
		cr_assert(take(64));
	cr_expect_gt(next_mallocs, 0);
	give(block);
}

/* How many bytes of the process RLIMIT_DATA counts. */
static size_t data_bytes(void)
{
	char line[200];
	size_t kb = 0;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		(void)sscanf(line, "VmData: %zu kB", &kb);
	if (file)
		fclose(file);
	return kb << 10;
}

Test(objects, a_purge_takes_what_is_empty_off_a_limit_of_writable_memory)
{
	static void *blocks[BLOCKS * 16];
	size_t full;

	start();
	mt_objects_limit(UINT64_MAX, 64 << 20);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < BLOCKS * 16; i++)
			memset(blocks[i] = take(64), 1, 64);
		full = data_bytes();
		for (size_t i = 0; i < BLOCKS * 16; i++)
			give(blocks[i]);
		(void)purge();
		cr_expect_leq(data_bytes() + 16 * (PAGES - 128) * MT_OBJECT_PAGE_BYTES, full);
	}
}

/* ---- threads ---- */

static _Atomic bool stop;

static void *purge_all_the_time(void *unused)
{
	while (!stop)
		(void)purge();
	return unused;
}

static unsigned int random_of(unsigned int *state)
{
	*state = *state * 1103515245u + 12345u;
	return *state >> 8;
}

/* Blocks that hold their own number, in a random order. */
static void churn(unsigned int seed, size_t steps)
{
	enum { COUNT = 20000 };
	uint64_t **blocks = calloc(COUNT, sizeof(*blocks));

	for (size_t i = 0; i < steps; i++) {
		unsigned int at = random_of(&seed) % COUNT;

		if (blocks[at]) {
			cr_assert_eq(*blocks[at], at ^ 0x5555);
			give(blocks[at]);
			blocks[at] = NULL;
			continue;
		}
		blocks[at] = take(8 + random_of(&seed) % 505);
		*blocks[at] = at ^ 0x5555;
	}
	for (unsigned int at = 0; at < COUNT; at++) {
		if (blocks[at])
			cr_assert_eq(*blocks[at], at ^ 0x5555);
		give(blocks[at]);
	}
	free(blocks);
}

Test(objects, blocks_stay_whole_while_another_thread_purges)
{
	pthread_t thread;

	start();
	cr_assert_eq(pthread_create(&thread, NULL, purge_all_the_time, NULL), 0);
	churn(1, 2000000);
	stop = true;
	pthread_join(thread, NULL);
	cr_expect_eq(figures().live_bytes, 0);
}

Test(objects, blocks_stay_whole_while_another_thread_purges_under_a_limit)
{
	pthread_t thread;

	start();
	mt_objects_limit(UINT64_MAX, 64 << 20);
	cr_assert_eq(pthread_create(&thread, NULL, purge_all_the_time, NULL), 0);
	for (unsigned int round = 0; round < 100; round++)
		churn(round, 20000);
	stop = true;
	pthread_join(thread, NULL);
	cr_expect_eq(figures().live_bytes, 0);
}

static void *churn_beside(void *seed)
{
	churn((unsigned int)(uintptr_t)seed, 300000);
	return NULL;
}

Test(objects, threads_may_share_it_once_they_say_so)
{
	pthread_t threads[4];
	void *before;

	start();
	before = take(64);
	mt_objects_share(true);
	for (uintptr_t i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, churn_beside, (void *)(i + 1)), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(figures().live_bytes, 64);
	mt_objects_share(false);
	give(before);
	churn(7, 100000);
	cr_expect_eq(figures().live_bytes, 0);
}

Test(objects, a_second_start_of_python_goes_on_with_the_heap_of_the_first)
{
	void *block = NULL;

	start();
	block = take(64);
	memset(block, 7, 64);
	for (int i = 0; i < 5000; i++)
		cr_assert(take(64));
	start();

	for (int i = 0; i < 5000; i++)
		cr_assert(take(64));

	cr_expect_eq(*(unsigned char *)block, 7);
	mt_objects_free(&next, block);
	cr_expect_eq(next_frees, 0);
}
