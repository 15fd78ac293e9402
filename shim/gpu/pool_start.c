/* start.c -- the start of the pool, its settings, and its end in a forked child. */
#include "gpu/pool.h"

#include <string.h>

#include "sys/attr.h"
#include "gpu/context.h"
#include "gpu/fence.h"

MT_COLD void mt_pool_configure(const struct mt_pool_settings *settings)
{
	double gc = settings->gc_threshold;
	bool rounds_up = false;

#define SET(field, value) atomic_store_explicit(&mt_pool.field, value, memory_order_relaxed)
	SET(decay_ms, settings->decay_ms);
	SET(max_idle_bytes, settings->max_idle_bytes);
	SET(max_idle_pct, settings->max_idle_pct);
	SET(low_free_pct, settings->low_free_pct);
	for (int i = 0; i < MT_POOL_ROUNDUPS; i++) {
		SET(roundup_divisions[i], settings->roundup_divisions[i]);
		rounds_up |= settings->roundup_divisions[i] != 0;
	}
	SET(rounds_up, rounds_up);
	SET(max_split_bytes, settings->max_split_bytes);
	SET(gc_permille, gc > 0 && gc < 1 ? (uint64_t)(gc * 1000) : 0);
#undef SET
}

static void forget_everything(void)
{
	mt_blocks_forget();
	mt_fence_forget_all();
	memset((void *)mt_pool.devices, 0, sizeof(mt_pool.devices));
	memset((void *)mt_pool.contexts, 0, sizeof(mt_pool.contexts));
	for (unsigned i = 0; i < MT_CONTEXTS; i++)
		mt_lock_set_rank(&mt_pool.contexts[i].lock, MT_RANK_context);
	atomic_store_explicit(&mt_pool.contexts_count, 0, memory_order_relaxed);
	atomic_store_explicit(&mt_pool.is_mixed, false, memory_order_relaxed);
	mt_contexts_forget_lock();
}

MT_COLD void mt_pool_start(const struct mt_driver *driver, const struct mt_pool_settings *settings)
{
	bool has_current = driver->cuCtxGetCurrent && driver->cuCtxPushCurrent_v2 &&
			   driver->cuCtxPopCurrent_v2;
	bool has_events = driver->cuCtxRecordEvent && driver->cuEventCreate &&
			  driver->cuEventQuery && driver->cuEventDestroy_v2;

	forget_everything();
	mt_pool_configure(settings);
	atomic_store_explicit(&mt_pool.mode, settings->mode, memory_order_relaxed);
	mt_pool.can_fence = has_current && has_events;
	/* release: pairs with mt_pool_driver's acquire */
	atomic_store_explicit(&mt_pool.driver, driver, memory_order_release);
	atomic_store_explicit(&mt_pool.is_up, true, memory_order_relaxed);
}

MT_COLD void mt_pool_fork_child(void)
{
	atomic_store_explicit(&mt_pool.is_up, false, memory_order_relaxed);
	forget_everything();
}
