/* test_jemalloc_reserve.c -- the address space that stands in where the kernel refuses jemalloc
 * what it cannot begin without. Each test is a process of its own, in which jemalloc has not begun.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef MT_NO_JEMALLOC
#include "heap/jemalloc_reserve.h"

#define KB 1024u
#define MB (1024u * KB)

static unsigned char *take(size_t bytes)
{
	return mt_jemalloc_reserve_take(bytes);
}

Test(jemalloc_reserve, has_all_that_jemalloc_begins_with)
{
	static const size_t sizes[] = {4 * KB, 4 * KB, 2 * MB, 2 * MB, 32 * KB, 4 * MB};
	unsigned char *given[6];

	cr_assert(mt_jemalloc_reserve_map());
	for (int i = 0; i < 6; i++) {
		given[i] = take(sizes[i]);
		cr_assert(given[i], "piece %d", i);
		cr_expect_eq((uintptr_t)given[i] % (sizes[i] < MB ? 64 * KB : 2 * MB), 0);
		cr_expect(given[i][0] == 0 && given[i][sizes[i] - 1] == 0);
		memset(given[i], i + 1, sizes[i]);
	}
	mt_jemalloc_reserve_settle();
	for (int i = 0; i < 6; i++)
		cr_expect(given[i][0] == i + 1 && given[i][sizes[i] - 1] == i + 1, "piece %d stays",
			  i);
}

Test(jemalloc_reserve, gives_nothing_before_it_is_mapped)
{
	mt_jemalloc_reserve_open();
	cr_expect_null(take(4 * KB));
}

Test(jemalloc_reserve, gives_a_thread_that_begins_one_arena_and_two_smaller_pieces)
{
	cr_assert(mt_jemalloc_reserve_map());
	mt_jemalloc_reserve_settle();
	cr_expect_null(take(4 * KB), "it has begun long ago");
	mt_jemalloc_reserve_open();
	cr_expect_null(take(2 * MB + 512 * KB), "that is no arena");
	cr_expect(take(2 * MB));
	cr_expect_null(take(2 * MB));
	cr_expect(take(32 * KB));
	cr_expect(take(256 * KB));
	cr_expect_null(take(4 * KB));
}

static void *begin(void *small_only)
{
	unsigned char *block;

	mt_jemalloc_reserve_open();
	block = take(small_only ? 32 * KB : 2 * MB);
	if (block)
		memset(block, 7, small_only ? 32 * KB : 2 * MB);
	return block;
}

static void *in_a_thread(bool small_only)
{
	void *given = NULL;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, begin, small_only ? &given : NULL), 0);
	cr_assert_eq(pthread_join(thread, &given), 0);
	return given;
}

Test(jemalloc_reserve, never_gives_the_same_memory_twice_and_comes_to_an_end)
{
	char *given[64];
	unsigned arenas = 0, small = 0;

	cr_assert(mt_jemalloc_reserve_map());
	mt_jemalloc_reserve_settle();
	while (arenas < 4 && (given[arenas] = in_a_thread(false)))
		arenas++;
	while (small < 60 && (given[arenas + small] = in_a_thread(true)))
		small++;
	cr_expect_eq(arenas, 4);
	cr_expect_eq(small, 32);
	cr_expect_null(in_a_thread(false));
	for (unsigned i = 0; i < arenas + small; i++)
		for (unsigned j = 0; j < i; j++)
			cr_expect(given[i] >= given[j] + (j < arenas ? 2 * MB : 32 * KB) ||
				  given[i] + 32 * KB <= given[j]);
}
#endif
