/* sites_libdw.c -- stands in for libdw.so.1: names every address by the user that asks, or does what a file made for it might
 * make the real one do, as SITES_LIBDW says: "crash" or "user". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DOES_NOTHING(X)                                                                                  \
	X(dwfl_end) X(dwfl_report_begin_add) X(dwfl_report_end) X(dwfl_module_getsrc) X(dwfl_lineinfo) \
	X(dwfl_linux_proc_find_elf) X(dwfl_standard_find_debuginfo)
#define X(name) void *name(void); void *name(void) { return NULL; }
DOES_NOTHING(X)
#undef X

void *dwfl_begin(void);
void *dwfl_report_elf(void);
const char *dwfl_module_addrname(void);

static int something;

void *dwfl_begin(void)
{
	return &something;
}

void *dwfl_report_elf(void)
{
	return &something;
}

const char *dwfl_module_addrname(void)
{
	static char name[32];

	if (strcmp(getenv("SITES_LIBDW"), "crash") == 0)
		abort();
	snprintf(name, sizeof(name), "user_%u", (unsigned)geteuid());
	return name;
}
