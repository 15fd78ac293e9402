#include "gpu/decay.h"

#include "sys/os.h"
#include "gpu/capture.h"
#include "gpu/fence.h"
#include "gpu/release.h"
#include "gpu/device_memory.h"

#define POLL_MAX   64    /* groups queried in one pass */
#define PENDING_MS 100u  /* run again while something is pending */
#define AGAIN_MS   10u   /* run again while more is due */
#define WATCH_MS   1000u /* measure the device's free memory, with decay off */

static bool is_up(void)
{
	return atomic_load_explicit(&mt_pool.is_up, memory_order_relaxed);
}

/* Queries up to `limit` of the oldest groups; the context is held. */
static void check_oldest(struct mt_context *context, unsigned limit)
{
	mt_lock_lock(&context->lock);
	(void)mt_fence_close(context);
	mt_fence_poll(context, limit);
	mt_lock_unlock(&context->lock);
}

/* Which idle blocks of the context are due. A capture that is open here is abandoned. */
static struct mt_release due(struct mt_context *context, uint64_t now_ns, uint32_t limit)
{
	uint64_t decay_ns = mt_counter(&mt_pool.decay_ms) * MT_NS_PER_MS;
	struct mt_release rule = {0, UINT64_MAX, limit, true, mt_capture_is_open(), true};

	if (decay_ns && now_ns > decay_ns)
		rule.freed_until_ns = now_ns - decay_ns;
	if (!mt_context_pools(context) ||
	    atomic_load_explicit(&mt_context_device(context)->is_low, memory_order_relaxed)) {
		rule.freed_until_ns = UINT64_MAX;
		rule.is_decay = false;
	}
	return rule;
}

static uint64_t over_cap(struct mt_context *context, uint32_t *limit)
{
	struct mt_release rule = {UINT64_MAX, 0, *limit, false, false, true};
	uint64_t released_bytes = 0;

	rule.bytes =
		mt_release_excess(atomic_load_explicit(&context->device, memory_order_relaxed));
	if (rule.bytes)
		released_bytes = mt_release_idle(context, &rule);
	*limit = rule.blocks;
	return released_bytes;
}

static uint64_t next_ms(struct mt_context *context, uint64_t now_ns, uint32_t limit)
{
	uint64_t decay_ms = mt_counter(&mt_pool.decay_ms);
	uint64_t next = UINT64_MAX, soon;
	const struct mt_group *oldest;

	mt_lock_lock(&context->lock);
	if (context->idle_line.first) {
		uint64_t freed_ns = context->idle_line.first->since_ns;
		uint64_t age_ms = now_ns > freed_ns ? (now_ns - freed_ns) / MT_NS_PER_MS : 0;

		next = decay_ms == 0       ? WATCH_MS
		       : age_ms < decay_ms ? decay_ms - age_ms + 1
					   : AGAIN_MS;
		if (next > WATCH_MS && mt_counter(&mt_pool.low_free_pct))
			next = WATCH_MS;
		if (!mt_context_pools(context))
			next = AGAIN_MS;
	}
	/* A group that cannot be fenced waits for the program's next call, not for the worker. */
	oldest = mt_fence_oldest_completable(context);
	soon = oldest && oldest->lacks_events ? WATCH_MS : PENDING_MS;
	if (oldest && next > soon)
		next = soon;
	mt_lock_unlock(&context->lock);
	return limit == 0 && next > AGAIN_MS ? AGAIN_MS : next;
}

static uint64_t tick_context(struct mt_context *context, uint64_t now_ns, uint32_t *limit)
{
	struct mt_release rule;
	uint64_t released_bytes;

	check_oldest(context, POLL_MAX);
	if (mt_counter(&context->counters.idle) == 0)
		return 0;
	mt_device_memory_measure(context, now_ns);
	rule = due(context, now_ns, *limit);
	released_bytes = mt_release_idle(context, &rule);
	*limit = rule.blocks;
	return released_bytes + over_cap(context, limit);
}

uint64_t mt_pool_tick(uint64_t now_ns, uint32_t limit, uint64_t *out_next_ms)
{
	uint64_t released_bytes = 0;
	int mode;

	*out_next_ms = UINT64_MAX;
	if (!is_up())
		return 0;
	if (mt_capture_is_open() && !mt_capture_is_abandoned()) {
		*out_next_ms = PENDING_MS;
		return 0;
	}
	mode = mt_capture_relax(mt_pool_driver());
	MT_EACH_CONTEXT(context)
	{
		uint32_t init = atomic_load_explicit(&context->init, memory_order_relaxed);
		uint64_t next;

		if (!mt_counter(&context->counters.idle) && !mt_counter(&context->counters.pending))
			continue;
		if (!mt_context_hold(context, init))
			continue;
		if (limit > 0)
			released_bytes += tick_context(context, now_ns, &limit);
		next = next_ms(context, now_ns, limit);
		*out_next_ms = next < *out_next_ms ? next : *out_next_ms;
		mt_context_drop(context);
	}
	mt_capture_restore(mt_pool_driver(), mode);
	return released_bytes;
}

uint64_t mt_pool_trim_device(int device)
{
	uint64_t released_bytes = 0;
	int mode;

	if (!is_up() || mt_capture_is_open())
		return 0;
	mode = mt_capture_relax(mt_pool_driver());
	MT_EACH_CONTEXT(context)
	{
		uint32_t init = atomic_load_explicit(&context->init, memory_order_relaxed);
		struct mt_release all = MT_RELEASE_ALL;

		all.is_background = true;
		if ((device != MT_ANY_DEVICE &&
		     mt_context_device(context) != mt_pool_device(device)) ||
		    !mt_context_hold(context, init))
			continue;
		check_oldest(context, UINT32_MAX);
		released_bytes += mt_release_idle(context, &all);
		mt_context_drop(context);
	}
	mt_capture_restore(mt_pool_driver(), mode);
	return released_bytes;
}

uint64_t mt_pool_trim(void)
{
	return mt_pool_trim_device(MT_ANY_DEVICE);
}

void mt_pool_pause_release(bool held)
{
	atomic_store_explicit(&mt_pool.pauses_release, held, memory_order_relaxed);
}
