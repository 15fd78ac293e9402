#include "sys/libc.h"

#include "sys/elf.h"

/* From this minor version on fork and malloc read __libc_single_threaded. */
#define LIBC_READS_FLAG_MINOR 36

/* libc's own variables, not the program's copies of them. NULL: unknown. Written by the
 * constructor. */
static volatile char *is_single_threaded;
static const volatile unsigned int *threads_count;

void mt_libc_find_threads(void)
{
	if (mt_libc_minor() < LIBC_READS_FLAG_MINOR)
		return;
	threads_count = mt_elf_libc_function("__nptl_nthreads");
	is_single_threaded = threads_count ? mt_elf_libc_function("__libc_single_threaded") : NULL;
}

bool mt_libc_knows_threads(void)
{
	return is_single_threaded != NULL;
}

unsigned int mt_libc_threads_count(void)
{
	return is_single_threaded ? *threads_count : 0;
}

bool mt_libc_is_single_threaded(void)
{
	return is_single_threaded && *is_single_threaded;
}

void mt_libc_set_single_threaded(bool is_single)
{
	*is_single_threaded = is_single;
}
