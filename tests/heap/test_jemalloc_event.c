/* test_jemalloc_event.c -- heap/jemalloc_thread: what a thread allocates is told about every so
 * many bytes, and nothing is printed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MT_NO_JEMALLOC

#include "heap/backend.h"
#include "heap/jemalloc.h"
#include "sys/os.h"
#include "core/core_internal.h"

#define MB MT_MIB

static unsigned took_count;

static void ignore_thread(void *counters)
{
	(void)counters;
}

static void allocated(void)
{
	took_count++;
}

static void start(void)
{
	static const struct mt_backend_hooks hooks = {.thread_born = ignore_thread,
						      .allocated = allocated};
	static struct mt_config config;
	static char conf[256];

	mt_config_defaults(&config);
	(void)mt_jemalloc_backend(&config, &hooks, conf, sizeof(conf));
	je_free(je_malloc(1));
	took_count = 0;
}

Test(jemalloc_event, comes_about_every_mb_that_a_thread_allocates)
{
	start();
	for (int i = 0; i < 64 * 64; i++)
		je_free(je_malloc(16384));

	cr_expect_geq(took_count, 60, "%u", took_count);
	cr_expect_leq(took_count, 70, "%u", took_count);
}

Test(jemalloc_event, comes_at_once_for_a_large_block)
{
	start();

	void *block = je_malloc(100 * MB);

	cr_expect_eq(took_count, 1);
	je_free(block);
}

/* While both blocks exist: that is when memory is short. */
Test(jemalloc_event, of_a_realloc_comes_as_of_a_malloc)
{
	start();
	void *block = je_malloc(10 * MB);
	took_count = 0;

	block = je_realloc(block, 40 * MB);

	cr_expect_eq(took_count, 1);
	je_free(block);
}

/* jemalloc would print its statistics at this event. */
Test(jemalloc_event, prints_nothing)
{
	int kept = dup(STDERR_FILENO), file = memfd_create("stderr", 0);
	struct stat found;

	start();
	cr_assert(kept >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
	for (int i = 0; i < 100; i++)
		je_free(je_malloc(10 * MB));
	fflush(stderr);
	cr_assert(dup2(kept, STDERR_FILENO) >= 0 && fstat(file, &found) == 0);
	cr_assert_eq(found.st_size, 0);
}

#endif
