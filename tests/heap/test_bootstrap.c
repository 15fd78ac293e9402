/* test_bootstrap.c -- heap/bootstrap: the fixed arena for the first calls of a process. Each test
 * begins with it unused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "heap/backend.h"

#define ARENA_BYTES (256 * 1024)

static const struct mt_heap_ops *const boot = &mt_bootstrap_ops;

Test(boot, hands_out_memory_of_its_own)
{
	int local;
	unsigned char *block;

	cr_expect_not(mt_bootstrap_used());
	block = boot->malloc(100);
	cr_assert_not_null(block);
	cr_expect(mt_bootstrap_used());
	cr_expect(mt_bootstrap_owns(block));
	cr_expect(mt_bootstrap_owns(block + 99));
	cr_expect_not(mt_bootstrap_owns(&local));
	cr_expect_not(mt_bootstrap_owns(NULL));
	cr_expect_eq(boot->malloc_usable_size(block), 100);
	cr_expect_eq(boot->malloc_usable_size(NULL), 0);
	memset(block, 1, 100);
}

Test(boot, every_block_is_aligned_and_overlaps_none)
{
	unsigned char *blocks[100];

	for (size_t i = 0; i < 100; i++) {
		blocks[i] = boot->malloc(i);
		cr_assert_not_null(blocks[i], "a block of 0 bytes is one, too");
		cr_expect_eq((uintptr_t)blocks[i] % 16, 0);
		memset(blocks[i], (int)i, i);
	}
	for (size_t i = 0; i < 100; i++) {
		cr_expect_eq(boot->malloc_usable_size(blocks[i]), i);
		for (size_t j = 0; j < i; j++)
			cr_assert_eq(blocks[i][j], i);
	}
}

Test(boot, aligns_as_asked)
{
	for (size_t alignment = 8; alignment <= 4096; alignment *= 2) {
		void *block = NULL;

		cr_expect_eq((uintptr_t)boot->memalign(alignment, 24) % alignment, 0);
		cr_expect_eq((uintptr_t)boot->aligned_alloc(alignment, 24) % alignment, 0);
		cr_expect_eq(boot->posix_memalign(&block, alignment, 24), 0);
		cr_assert_not_null(block);
		cr_expect_eq((uintptr_t)block % alignment, 0);
		cr_expect_eq(boot->malloc_usable_size(block), 24);
	}
	cr_expect_eq((uintptr_t)boot->memalign(48, 8) % 64, 0, "rounded up, as libc does");
	cr_expect_eq((uintptr_t)boot->memalign(0, 8) % 16, 0);
}

Test(boot, refuses_bad_alignments)
{
	int local;
	void *block = &local;

	cr_expect_eq(boot->posix_memalign(&block, 24, 8), EINVAL);
	cr_expect_eq(boot->posix_memalign(&block, 0, 8), EINVAL);
	cr_expect_eq(boot->posix_memalign(&block, 4, 8), EINVAL);
	cr_expect_eq(boot->posix_memalign(&block, SIZE_MAX / 2 + 1, 8), ENOMEM);
	cr_expect_eq(block, &local, "written on success only");
	cr_expect_null(boot->memalign(SIZE_MAX / 2 + 1, 8));
	errno = 0;
	cr_expect_null(boot->memalign(SIZE_MAX / 2 + 2, 8));
	cr_expect_eq(errno, EINVAL);
	cr_expect_not(mt_bootstrap_used());
}

Test(boot, gives_zeroes)
{
	static const unsigned char zeroes[4096];
	unsigned char *first = boot->malloc(4096);
	unsigned char *block;

	memset(first, 0xff, 4096);
	boot->free(first);
	block = boot->calloc(16, 256);
	cr_assert_not_null(block);
	cr_expect_arr_eq(block, zeroes, 4096);
}

Test(boot, refuses_products_that_overflow)
{
	errno = 0;
	cr_expect_null(boot->calloc(SIZE_MAX / 2, 3));
	cr_expect_eq(errno, ENOMEM);
	cr_expect_null(boot->malloc(SIZE_MAX));
	cr_expect_null(boot->malloc(SIZE_MAX - 15));
	cr_expect_null(boot->memalign(4096, SIZE_MAX - 4095));
}

Test(boot, moves_what_a_block_holds)
{
	char *block = boot->realloc(NULL, 8);
	char *other;

	cr_assert_not_null(block);
	memcpy(block, "sevenxx", 8);
	other = boot->realloc(block, 4000);
	cr_assert_not_null(other);
	cr_expect_str_eq(other, "sevenxx");
	cr_expect_str_eq(block, "sevenxx", "what was handed out is never taken back");
	other = boot->realloc(other, 3);
	cr_expect_eq(boot->malloc_usable_size(other), 3);
	cr_expect_arr_eq(other, "sev", 3);
	other = boot->realloc(other, 30);
	cr_expect_eq(boot->malloc_usable_size(other), 30);
	cr_expect_arr_eq(other, "sev", 3);
}

Test(boot, a_smaller_copy_writes_no_further_than_itself)
{
	static const unsigned char zeroes[3000];
	char *block = boot->malloc(4000);

	memset(block, 0xff, 4000);
	cr_assert_not_null(boot->realloc(block, 3));
	cr_expect_arr_eq(boot->calloc(1, 3000), zeroes, 3000);
}

Test(boot, maps_what_the_arena_has_no_room_for_and_ends_with_an_error)
{
	unsigned int mapped_count = 0;
	unsigned char *last = NULL;
	unsigned char *block;
	size_t taken = 0;

	errno = 0;
	while ((block = boot->malloc(1100)) != NULL) { /* of which no whole number fits */
		memset(block, 1, 1100);
		cr_assert(mt_bootstrap_owns(block + 1099));
		last = block;
		taken += 1100;
		mapped_count += taken > ARENA_BYTES;
		cr_assert_leq(mapped_count, 100);
	}
	cr_expect_eq(errno, ENOMEM);
	cr_expect_geq(mapped_count, 60);
	cr_expect_eq(boot->malloc_usable_size(last), 1100);
	cr_expect_null(boot->malloc(ARENA_BYTES));
	cr_expect_null(boot->realloc(last, 2000), "and the block stays");
	cr_expect_eq(last[1099], 1);
}

Test(boot, maps_a_large_block_by_itself)
{
	unsigned char *block = boot->memalign(1 << 20, 3 << 20);
	unsigned char *other;

	cr_assert_not_null(block);
	cr_expect(mt_bootstrap_used());
	cr_expect_eq((uintptr_t)block % (1 << 20), 0);
	memset(block, 7, 3 << 20);
	cr_expect(mt_bootstrap_owns(block) && mt_bootstrap_owns(block + (3 << 20) - 1));
	cr_expect_not(mt_bootstrap_owns(block + (5 << 20)));
	other = boot->realloc(block, 5 << 20);
	cr_assert_not_null(other);
	cr_expect_eq(other[(3 << 20) - 1], 7);
	cr_expect_eq(other[3 << 20], 0);
}

Test(boot, takes_back_the_last_block_single)
{
	void *first = boot->malloc(1);

	mt_bootstrap_take_back(first);
	cr_expect_not(mt_bootstrap_used());
	first = boot->malloc(100);
	cr_assert_not_null(boot->malloc(50));
	mt_bootstrap_take_back(first);
	cr_expect(mt_bootstrap_used());
	cr_expect_neq(boot->malloc(20), first, "somebody has had one since");
}

static void *take_many(void *mark)
{
	unsigned char *blocks[100];

	for (int i = 0; i < 100; i++) {
		blocks[i] = boot->malloc(200);
		cr_assert_not_null(blocks[i]);
		memset(blocks[i], (int)(intptr_t)mark, 200);
	}
	for (int i = 0; i < 100; i++)
		for (int j = 0; j < 200; j++)
			cr_assert_eq(blocks[i][j], (intptr_t)mark);
	return NULL;
}

Test(boot, serves_threads_at_the_same_time)
{
	pthread_t threads[8];

	for (intptr_t i = 0; i < 8; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, take_many, (void *)(i + 1)), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}
