#include <criterion/criterion.h>

#include <dlfcn.h>
#include <string.h>

#include "base/elf.h"

Test(elf, finds_what_dlsym_finds)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	cr_assert_not_null(libc);
	cr_expect_eq(mt_elf_find("libc.so.6", "strtol", NULL), dlsym(libc, "strtol"));
	cr_expect_eq(mt_elf_find("libc.so.6", "environ", NULL), dlsym(libc, "environ"));
	cr_expect_eq(mt_elf_find_libc("fopen"), dlsym(libc, "fopen"));
}

Test(elf, tells_versions_apart)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

#if defined(__x86_64__)
	/* realpath has an old version that takes no NULL. */
	cr_expect_eq(mt_elf_find("libc.so.6", "realpath", "GLIBC_2.2.5"), dlvsym(libc, "realpath", "GLIBC_2.2.5"));
	cr_expect_eq(mt_elf_find("libc.so.6", "realpath", "GLIBC_2.3"), dlvsym(libc, "realpath", "GLIBC_2.3"));
	cr_expect_neq(mt_elf_find("libc.so.6", "realpath", "GLIBC_2.3"), mt_elf_find("libc.so.6", "realpath", "GLIBC_2.2.5"));
#endif
	cr_expect_eq(mt_elf_find("libc.so.6", "realpath", NULL), dlsym(libc, "realpath"));
	cr_expect_null(mt_elf_find("libc.so.6", "strtol", "NONE_1"));
}

Test(elf, finds_nothing_where_there_is_nothing)
{
	cr_expect_null(mt_elf_find("libc.so.6", "no_such_symbol", NULL));
	cr_expect_null(mt_elf_find("libnone.so.1", "strtol", NULL));
	cr_expect_null(mt_elf_find("libc.so.6", "", NULL));
	cr_expect_null(mt_elf_find_libc("mt_elf_find"), "never ourselves");
}

Test(elf, knows_loaded_objects_by_a_glob)
{
	char path[256] = "untouched";

	cr_expect(mt_elf_is_loaded("libc.so.*"));
	cr_expect(mt_elf_is_loaded("lib*.so*"));
	cr_expect_not(mt_elf_is_loaded("libcuda.so.1"));
	cr_expect_not(mt_elf_is_loaded("libc.so"));
	cr_expect_not(mt_elf_path("libnone*", path, sizeof(path)));
	cr_expect_not(mt_elf_path("libc.so.6", path, 3));
	cr_expect_str_eq(path + 3, "ouched", "nothing past the end");
	cr_expect(mt_elf_path("libc.so.6", path, sizeof(path)));
	cr_expect_str_eq(strrchr(path, '/'), "/libc.so.6");
}

Test(elf, sees_that_something_was_loaded)
{
	unsigned long long before = mt_elf_loads();

	cr_assert_gt(before, 1);
	cr_expect_eq(mt_elf_loads(), before);
	cr_assert_not_null(dlopen("libBrokenLocale.so.1", RTLD_LAZY));
	cr_expect_gt(mt_elf_loads(), before);
}

Test(elf, finds_libcs_own_dlsym)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	mt_dlsym_fn by_name = mt_elf_dlsym();
	mt_dlvsym_fn by_version = mt_elf_dlvsym();

	cr_assert(by_name && by_version);
	cr_expect_eq(by_name(libc, "strtol"), dlsym(libc, "strtol"));
	cr_expect_null(by_version(libc, "strtol", "NONE_1"));
}
