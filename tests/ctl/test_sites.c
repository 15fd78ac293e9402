/* test_sites.c -- ctl/sites: names of one's own code, which frame tells most, merging, and growth.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/profile/profile_internal.h"
#include "ctl/profile/sites.h"

static const char *name_of(size_t count, const char *const *frames)
{
	static struct mt_site site;

	site.frames_count = count;
	for (size_t i = 0; i < count; i++)
		site.frames[i] = frames[i];
	return mt_sites_name(&site);
}

Test(sites, the_name_is_of_the_first_frame_that_is_no_wrapper)
{
	cr_expect_str_eq(name_of(3, (const char *const[]){"_Znwm in libstdc++.so.6",
							  "load at load.cc:3", "main"}),
			 "load at load.cc:3");
	cr_expect_str_eq(name_of(2, (const char *const[]){"strdup in libc.so.6", "keep at a.c:1"}),
			 "keep at a.c:1");
	cr_expect_str_eq(
		name_of(2, (const char *const[]){"__strdup at strdup.c:42", "keep at a.c:1"}),
		"keep at a.c:1");
	cr_expect_str_eq(name_of(2, (const char *const[]){"mallocator at x.c:1", "main"}),
			 "mallocator at x.c:1");
	cr_expect_str_eq(name_of(2, (const char *const[]){"_PyObject_Malloc in python3.11",
							  "PyList_New in python3.11"}),
			 "PyList_New in python3.11");
	cr_expect_str_eq(name_of(1, (const char *const[]){"malloc in libc.so.6"}),
			 "malloc in libc.so.6", "better than nothing");
	cr_expect_null(name_of(0, NULL));
}

/* ---- with the names of this very process ---- */

static struct mt_symbols *symbols_of_self(void)
{
	struct mt_symbols *symbols = NULL;
	struct mt_process self = {.pid = getpid()};
	struct mt_error_reason why;

	cr_assert_eq(mt_symbols_new(&self, &symbols, &why), MT_ERR_OK, "%s", why.text);
	return symbols;
}

__attribute__((noinline)) int well_known_function(int value);
__attribute__((noinline)) int well_known_function(int value)
{
	__asm__ volatile("" : "+r"(value));
	return value + 1;
}

#define INSIDE (((uint64_t)(uintptr_t)&well_known_function) + 2)

Test(sites, an_address_in_ones_own_code_has_function_and_line)
{
	struct mt_symbols *symbols = symbols_of_self();
	char *name = mt_symbols_name(symbols, INSIDE);

	cr_expect_eq(strncmp(name, "well_known_function at test_sites.c:", 36), 0, "%s", name);
	free(name);
	mt_symbols_free(symbols);
}

Test(sites, a_function_of_a_library_has_its_name)
{
	struct mt_symbols *symbols = symbols_of_self();
	char *name =
		mt_symbols_name(symbols, (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "getpid") + 2);

	cr_expect(strstr(name, "getpid in libc.so.6") || strstr(name, "getpid at "), "%s", name);
	free(name);
	mt_symbols_free(symbols);
}

Test(sites, addresses_of_nothing_stay_numbers)
{
	struct mt_symbols *symbols = symbols_of_self();
	static const uint64_t addresses[] = {0, 1, 0x10, UINT64_MAX};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		char *name = mt_symbols_name(symbols, addresses[i]);

		cr_expect_eq(strncmp(name, "0x", 2), 0, "%s", name);
		cr_expect_not(mt_symbols_is_shim(symbols, addresses[i]));
		free(name);
	}
	mt_symbols_free(symbols);
}

/* A profile of one stack for each count; addresses of nothing, so that names are their numbers. */
static struct mt_sites read_counts(const uint64_t *addresses, const uint64_t *counts, size_t count)
{
	uint64_t kept[16];
	struct mt_heap_profile_stack stacks[16];
	struct mt_heap_profile file = {.rate_bytes = 1,
				       .addresses = kept,
				       .addresses_count = count,
				       .stacks = stacks,
				       .stacks_count = count};
	struct mt_symbols *symbols = symbols_of_self();
	struct mt_sites sites;

	for (size_t i = 0; i < count; i++) {
		kept[i] = addresses[i];
		stacks[i] = (struct mt_heap_profile_stack){.first = i,
							   .frames_count = addresses[i] != 0,
							   .sampled_count = counts[i],
							   .sampled_bytes = counts[i] * 100};
	}
	mt_sites_read(&file, symbols, &sites);
	mt_symbols_free(symbols);
	return sites;
}

Test(sites, stacks_of_the_same_frames_are_one_and_the_largest_comes_first)
{
	struct mt_sites sites = read_counts((const uint64_t[]){0x10, 0x20, 0x10, 0},
					    (const uint64_t[]){2, 4, 3, 1}, 4);

	cr_assert_eq(sites.count, 3);
	cr_expect_eq(sites.live_bytes, 1000);
	cr_expect_eq(sites.list[0].live_bytes, 500);
	cr_expect_str_eq(mt_sites_name(&sites.list[0]), "0x10");
	cr_expect_eq(sites.list[0].sampled_count, 5);
	cr_expect_eq(sites.list[1].live_bytes, 400);
	cr_expect_str_eq(mt_sites_name(&sites.list[2]), "(no stack)");
	mt_sites_free(&sites);
}

Test(sites, growth_is_what_has_more_than_before)
{
	struct mt_sites before =
		read_counts((const uint64_t[]){0x10, 0x20, 0x30}, (const uint64_t[]){5, 5, 5}, 3);
	struct mt_sites after = read_counts((const uint64_t[]){0x10, 0x20, 0x40, 0x30},
					    (const uint64_t[]){7, 5, 9, 1}, 4);
	struct mt_sites growth;

	mt_sites_growth(&before, &after, &growth);

	cr_assert_eq(growth.count, 2);
	cr_expect_str_eq(mt_sites_name(&growth.list[0]), "0x40");
	cr_expect_eq(growth.list[0].live_bytes, 900);
	cr_expect_str_eq(mt_sites_name(&growth.list[1]), "0x10");
	cr_expect_eq(growth.list[1].live_bytes, 200);
	cr_expect_eq(growth.live_bytes, 1100);
	mt_sites_free(&growth);
	mt_sites_free(&after);
	mt_sites_free(&before);
}

Test(sites, an_empty_profile_is_no_error)
{
	struct mt_sites before = read_counts(NULL, NULL, 0), growth;

	mt_sites_growth(&before, &before, &growth);

	cr_expect_eq(before.count, 0);
	cr_expect_eq(growth.count, 0);
	mt_sites_free(&growth);
	mt_sites_free(&before);
}
