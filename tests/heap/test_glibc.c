/* test_glibc.c -- heap/glibc: the size in a chunk's header. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heap/glibc.h"

Test(glibc, reads_the_size_behind_its_flags)
{
	static const struct {
		size_t header, usable;
	} rows[] = {
		{0x21, 24},
		{0x20, 24},
		{0x25, 24},
		{0x24, 24},
		{0x31, 40},
		{0x411, 1032},
		{0x10001, 65528},
		{0x22, 16},
		{0x1002, 4080},
		{0x101002, 0x100ff0},
		{0x40000000002, 0x3fffffffff0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t chunk[4] = {0, rows[i].header, 0, 0};

		cr_expect_eq(mt_glibc_header(&chunk[2]), rows[i].header);
		cr_expect_eq(mt_glibc_is_mapped(rows[i].header), (rows[i].header & 2) != 0);
		cr_expect_eq(mt_glibc_usable(&chunk[2]), rows[i].usable, "row %zu: %zu", i,
			     mt_glibc_usable(&chunk[2]));
	}
}

/* The sanitizers bring their own malloc. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* The compiler knows what malloc is, and rightly does not like a look before a block. */
static void *unknown(void *block)
{
	__asm__("" : "+r"(block));
	return block;
}

/* A preloaded one, valgrind's say, serves malloc in its place. */
static bool serves_malloc(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return !preload || !*preload;
}

Test(glibc, agrees_with_the_allocator_on_every_kind_of_block)
{
	if (!serves_malloc())
		return;
	cr_expect(mt_glibc_check(mt_system_plain_ops()));
	for (size_t size = 0; size < 3000; size++) {
		void *block = unknown(malloc(size));

		cr_assert_eq(mt_glibc_usable(block), malloc_usable_size(block), "%zu", size);
		cr_assert_not(mt_glibc_is_mapped(mt_glibc_header(block)));
		free(block);
	}
	for (size_t size = 4096; size < (64u << 20); size *= 3) {
		void *block = unknown(malloc(size));
		void *aligned = unknown(aligned_alloc(4096, size / 4096 * 4096));

		cr_assert_eq(mt_glibc_usable(block), malloc_usable_size(block), "%zu", size);
		cr_assert_eq(mt_glibc_usable(aligned), malloc_usable_size(aligned), "%zu", size);
		block = unknown(realloc(block, size / 2));
		cr_assert_eq(mt_glibc_usable(block), malloc_usable_size(block), "%zu", size);
		free(block);
		free(aligned);
	}
}

Test(glibc, knows_a_mapped_block)
{
	void *block;

	if (!serves_malloc())
		return;
	cr_assert(mt_glibc_ops());
	mallopt(M_MMAP_THRESHOLD, 128 * 1024);
	block = unknown(malloc(1 << 20));
	cr_assert_not_null(block);
	cr_expect(mt_glibc_is_mapped(mt_glibc_header(block)));
	cr_expect_eq(mt_glibc_usable(block), malloc_usable_size(block));
	free(block);
}
#endif
