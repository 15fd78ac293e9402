#include <criterion/criterion.h>

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "sys/loader.h"

Test(elf, knows_loaded_objects_by_their_name)
{
	char path[256] = "untouched";

	cr_expect_not(mt_loader_path("libcuda.so.1", path, sizeof(path)));
	cr_expect_not(mt_loader_path("libc.so", path, sizeof(path)));
	cr_expect_not(mt_loader_path("libc.so.6", path, 3));
	cr_expect_str_eq(path + 3, "ouched", "nothing past the end");
	cr_expect(mt_loader_path("libc.so.6", path, sizeof(path)));
	cr_expect_str_eq(strrchr(path, '/'), "/libc.so.6");
}

Test(elf, sees_that_something_was_loaded)
{
	unsigned long long before = mt_loader_load_count();

	cr_assert_gt(before, 1);
	cr_expect_eq(mt_loader_load_count(), before);
	cr_assert_not_null(dlopen("libBrokenLocale.so.1", RTLD_LAZY));
	cr_expect_gt(mt_loader_load_count(), before);
}

Test(elf, finds_libcs_own_dlsym)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	mt_dlsym_fn by_name = mt_loader_dlsym();

	cr_assert_not_null((void *)(uintptr_t)by_name);
	cr_expect_eq((void *)by_name, dlsym(libc, "dlsym"));
	cr_expect_eq(mt_loader_look_up(libc, "dlvsym", "GLIBC_2.34"),
		     dlvsym(libc, "dlvsym", "GLIBC_2.34"), "the merged one, not libdl's old one");
	cr_expect_eq(by_name(libc, "strtol"), dlsym(libc, "strtol"));
	cr_expect_null(mt_loader_look_up(libc, "strtol", "NONE_1"));
}

Test(elf, tells_libcs_own_functions_by_their_address)
{
	/* Of libc's own handle: AddressSanitizer has a strtol before it. */
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	const char *path = mt_loader_libc_path("strtol", dlsym(libc, "strtol"));

	cr_assert_not_null(path);
	cr_expect_str_eq(strrchr(path, '/'), "/libc.so.6");
	cr_expect_null(mt_loader_libc_path("strtol", dlsym(libc, "strtoul")),
		       "another function of libc's");
	cr_expect_null(mt_loader_libc_path("strtol", (const void *)(uintptr_t)&mt_loader_libc_path),
		       "a function of ours");
	cr_expect_null(mt_loader_libc_path("no_such_name", NULL));
	cr_expect(mt_loader_is_libc_function("strtol", dlsym(libc, "strtol")));
	cr_expect_not(mt_loader_is_libc_function("strtol", dlsym(libc, "strtoul")));
	cr_expect_not(mt_loader_is_libc_function("no_such_name", dlsym(libc, "strtol")));
	cr_expect_not(mt_loader_is_libc_function("no_such_name", NULL));
}

Test(elf, finds_libcs_own_function_whoever_stands_before_it)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	cr_expect_eq(mt_loader_libc_function("clock_gettime"), dlsym(libc, "clock_gettime"));
	cr_expect_null(mt_loader_libc_function("no_such_name"));
	cr_expect_null(mt_loader_libc_function("cr_log"), "libc's alone");
}
