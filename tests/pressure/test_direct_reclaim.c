/* test_direct_reclaim.c -- pressure/reclaim: a thread that allocates returns free memory
 * before its limit is reached. */
#include <criterion/criterion.h>
#include <string.h>

#ifndef MT_NO_JEMALLOC

#include "heap/account.h"
#include "heap/backend.h"
#include "heap/jemalloc.h"
#include "core/config.h"
#include "sys/os.h"
#include "pressure/pressure_internal.h"

#define MB ((uint64_t)MT_MIB)

static void thread_born(void *counters)
{
	mt_account_thread_born(counters);
}

static const struct mt_backend *start(void)
{
	static const struct mt_backend_hooks hooks = {.thread_born = thread_born};
	const char *environment[] = {"MT_ALLOCATOR=jemalloc", NULL};
	const struct mt_backend *backend;

	mt_config_read(environment);
	mt_backend_prepare_jemalloc(mt_config(), &hooks);
	mt_backend_use_jemalloc();
	backend = mt_backend();
	mt_account_start(mt_jemalloc_counters, NULL);
	cr_assert_null(mt_jemalloc_begins());
	return backend;
}

/* A look of a process that uses 6 MB beside what it has freed. */
static void look_after_free(const struct mt_backend *backend, uint64_t freed_bytes,
			    uint64_t limit_bytes)
{
	struct mt_headroom_sample look = {.now_ns = mt_os_now_ns(),
					  .used_bytes = freed_bytes + 6 * MB,
					  .limit_bytes = limit_bytes,
					  .anon_bytes = freed_bytes + 5 * MB};

	backend->ops->free(memset(backend->ops->malloc(freed_bytes), 1, freed_bytes));
	cr_assert(mt_reclaim_read_heap(&look.heap));
	cr_assert(look.heap.exact);
	mt_reclaim_set_ceiling(&look);
}

static uint64_t spared(uint64_t freed_bytes, uint64_t limit_bytes)
{
	uint64_t count, ns;

	look_after_free(start(), freed_bytes, limit_bytes);
	mt_reclaim_after_large_free();
	mt_reclaim_read_counters(&count, &ns);
	return count;
}

Test(reclaim, leaves_to_others_what_they_could_not_have_beside_it)
{
	cr_expect_eq(spared(40 * MB, 80 * MB), 1);
}

Test(reclaim, leaves_to_others_more_than_an_eighth_of_the_limit)
{
	cr_expect_eq(spared(40 * MB, 300 * MB), 1);
}

Test(reclaim, keeps_little_beside_the_limit)
{
	cr_expect_eq(spared(40 * MB, 400 * MB), 0);
}

#endif
