/* tests/ctl/test_runtime.c -- ctl/process/look.h: versions of glibc and Python. */
#include <criterion/criterion.h>
#include <string.h>

#include "ctl/process/look.h"
#include "ctl/process/look_internal.h"

static bool find(const char *bytes, char *out, size_t out_bytes)
{
	*out = '\0';
	return mt_runtime_libc(bytes, strlen(bytes), out, out_bytes);
}

Test(runtime, reads_the_version_in_the_file_of_glibc)
{
	char text[128];

	cr_expect(find("xx GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version "
		       "2.36.\nCopyright",
		       text, sizeof(text)));
	cr_expect_str_eq(text, "glibc 2.36 (Debian GLIBC 2.36-9+deb12u10)");
	cr_expect(find("GNU C Library (GNU libc) development release version 2.43.9000.", text,
		       sizeof(text)));
	cr_expect_str_eq(text, "glibc 2.43.9000 (GNU libc)");
}

Test(runtime, takes_no_other_text_for_a_version)
{
	char text[128];

	cr_expect_not(find("musl libc (x86_64)", text, sizeof(text)));
	cr_expect_not(find("GNU C Library (", text, sizeof(text)));
	cr_expect_not(find("GNU C Library (x) stable release version \033[2J", text, sizeof(text)));
	cr_expect_str_empty(text);
}

Test(runtime, tells_python_by_the_names_of_its_files)
{
	char version[16] = "";

	cr_expect(mt_runtime_python("python3", version, sizeof(version)));
	cr_expect(mt_runtime_python("libpython3.11.so.1.0", version, sizeof(version)));
	cr_expect_not(mt_runtime_python("pythonista", version, sizeof(version)));
	cr_expect_str_eq(version, "3.11");
}
