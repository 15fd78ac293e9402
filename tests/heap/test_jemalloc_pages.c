/* test_jemalloc_pages.c -- heap/jemalloc_pages: the page counters say what the epoch says. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#ifndef MT_NO_JEMALLOC

#include "heap/backend.h"
#include "heap/jemalloc.h"
#include "heap/jemalloc_internal.h"
#include "heap/purge_lock.h"
#include "sys/os.h"
#include "core/core_internal.h"

static void ignore_thread(void *counters)
{
	(void)counters;
}

static const struct mt_backend *start(void)
{
	static const struct mt_backend_hooks hooks = {.thread_born = ignore_thread};
	static struct mt_config config;
	static char conf[256];

	mt_config_defaults(&config);
	return mt_jemalloc_backend(&config, &hooks, conf, sizeof(conf));
}

#define BLOCKS      64
#define BLOCK_BYTES (1u << 20)

static void use_some(void)
{
	void *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = je_malloc(BLOCK_BYTES);
		cr_assert_not_null(blocks[i]);
		memset(blocks[i], 1, BLOCK_BYTES);
	}
	mt_jemalloc_counters_begin(); /* a thread that has not allocated may not reclaim */
	for (int i = 0; i < BLOCKS; i += 2)
		je_free(blocks[i]);
}

static void expect_the_same(const struct mt_backend *backend)
{
	struct mt_heap_figures pages = {0};
	struct mt_heap_figures all = {0};

	cr_assert(backend->figures(&all));
	cr_assert(backend->pages(&pages));
	cr_expect_eq(pages.dirty_bytes, all.dirty_bytes);
	cr_expect_eq(pages.active_bytes, all.active_bytes);
	cr_expect_eq(pages.live_bytes, 0, "nothing else is filled");
}

Test(jemalloc_pages, say_what_the_epoch_says)
{
	const struct mt_backend *backend = start();
	struct mt_heap_figures pages = {0};

	cr_expect_not(backend->pages(&pages), "jemalloc has not begun");
	use_some();
	expect_the_same(backend);
	use_some();
	expect_the_same(backend);
}

Test(jemalloc_pages, follow_every_free_without_an_epoch)
{
	const struct mt_backend *backend = start();
	struct mt_heap_figures pages = {0};
	struct mt_purge_outcome outcome;
	uint64_t before;

	use_some();
	expect_the_same(backend);
	cr_assert(backend->pages(&pages));
	before = pages.dirty_bytes;
	cr_expect_geq(before, (uint64_t)BLOCKS / 2 * BLOCK_BYTES);
	backend->purge(&outcome);
	cr_assert(backend->pages(&pages));
	cr_expect_eq(pages.dirty_bytes, 0);
	use_some();
	cr_assert(backend->pages(&pages));
	cr_expect_geq(pages.dirty_bytes, (uint64_t)BLOCKS / 2 * BLOCK_BYTES);
}

Test(jemalloc_pages, of_an_arena_that_was_first_used_since_the_last_epoch_are_purged_too)
{
	const struct mt_backend *backend = start();
	struct mt_heap_figures pages = {0};
	struct mt_purge_outcome outcome;
	unsigned int arena = 1; /* nobody has been in it */

	use_some();
	expect_the_same(backend);
	cr_assert_eq(je_mallctl("thread.arena", NULL, NULL, &arena, sizeof(arena)), 0);
	use_some();
	cr_assert(backend->pages(&pages));
	cr_expect_geq(pages.dirty_bytes, (uint64_t)BLOCKS / 2 * BLOCK_BYTES);
	backend->purge(&outcome);
	cr_assert(backend->pages(&pages));
	cr_expect_eq(pages.dirty_bytes, 0);
}

Test(jemalloc_pages, are_returned_where_more_are_free_than_may_stay)
{
	const struct mt_backend *backend = start();
	struct mt_heap_figures pages = {0};

	use_some();
	expect_the_same(backend);
	cr_assert(backend->pages(&pages));

	cr_expect_eq(backend->reclaim(pages.dirty_bytes, MT_NS_PER_S), MT_RECLAIMED_NOTHING);
	cr_expect_eq(backend->reclaim(pages.dirty_bytes - 1, MT_NS_PER_S), MT_RECLAIMED_SOME);
	cr_assert(backend->pages(&pages));
	cr_expect_eq(pages.dirty_bytes, 0);
}

/* The other thread that has the purge lock, between the two barriers. */
static pthread_barrier_t has_lock, may_leave;

static void *hold_purge_lock(void *unused)
{
	mt_purge_enter();
	pthread_barrier_wait(&has_lock);
	pthread_barrier_wait(&may_leave);
	mt_purge_leave();
	return unused;
}

Test(jemalloc_pages, are_not_waited_for_longer_than_patience_lasts)
{
	const struct mt_backend *backend = start();
	pthread_t other;

	use_some();
	expect_the_same(backend);
	pthread_barrier_init(&has_lock, NULL, 2);
	pthread_barrier_init(&may_leave, NULL, 2);
	cr_assert_eq(pthread_create(&other, NULL, hold_purge_lock, NULL), 0);
	pthread_barrier_wait(&has_lock);

	cr_expect_eq(backend->reclaim(0, MT_NS_PER_MS), MT_RECLAIMED_BUSY);
	pthread_barrier_wait(&may_leave);
	pthread_join(other, NULL);
	cr_expect_eq(backend->reclaim(0, MT_NS_PER_MS), MT_RECLAIMED_SOME);
}

Test(jemalloc_pages, are_not_asked_where_the_program_has_arenas_of_its_own)
{
	const struct mt_backend *backend = start();
	struct mt_heap_figures pages = {0};
	unsigned int arena = 0;
	size_t bytes = sizeof(arena);

	use_some();
	expect_the_same(backend);
	cr_assert_eq(je_mallctl("arenas.create", &arena, &bytes, NULL, 0), 0);
	cr_expect_not(backend->pages(&pages), "it may destroy them at any time");
}

#endif
