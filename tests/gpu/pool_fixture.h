/* pool_fixture.h -- how tests of the pool begin and end: two contexts on two devices, the first one
 * current, and blocks that are taken and freed as the program's own calls take and free them. */
#ifndef MT_POOL_FIXTURE_H
#define MT_POOL_FIXTURE_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include "pool_driver.h"
#include "pool_settings.h"

#define MB (1024ull * 1024)

static struct mt_driver driver;
static struct CUctx_st *first, *second;

static inline void begin_with(mt_pool_mode_fn mode, const char *decay_ms)
{
	pool_settings(decay_ms, "0");
	driver = fake_driver();
	first = fake_context(0, 0);
	second = fake_context(1, 1);
	fake_make_current(first);
	mt_pool_start(&driver, mode);
}

/* Criterion counts no assertion that fails in here. It reports a crash, which tests/run counts. */
static inline void finish(void)
{
	if (atomic_load(&fake.wrongs))
		abort();
}

static inline uint64_t allocate(size_t bytes)
{
	uint64_t dptr = 0;

	cr_assert_eq(mt_pool_alloc(&dptr, bytes), MT_CU_SUCCESS);
	cr_assert_neq(dptr, 0);
	return dptr;
}

static inline void release(uint64_t dptr)
{
	cr_assert_eq(fake_free(dptr), MT_CU_SUCCESS);
}

#endif
