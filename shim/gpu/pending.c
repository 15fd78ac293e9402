/* gpu/pending.c -- blocks that a free has left pending: MT_CUDA_FREE=async alone (gpu/pool.h). */
#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/pool.h"

#define CAP_WAIT_NS (100 * MT_NS_PER_MS) /* then the driver's cuMemFree waits */

bool mt_pending_poll(struct mt_context *context, unsigned limit)
{
	bool has_idle = false;

	for (; context->pending_line.first && limit > 0; limit--) {
		if (mt_fence_ask(context, context->pending_line.first) != MT_FENCE_DONE)
			break;
		has_idle = true;
	}
	return has_idle;
}

void mt_pending_check(struct mt_context *context, unsigned limit)
{
	mt_lock_lock(&context->lock);
	(void)mt_pending_poll(context, limit);
	mt_lock_unlock(&context->lock);
}

bool mt_pending_is_on(int device)
{
	MT_EACH_CONTEXT(context)
	{
		if (mt_context_is_on(context, device) && mt_counter(&context->counters.pending))
			return true;
	}
	return false;
}

/* Returns whether the next block of this size would pass the cap, and none is idle for it. */
static bool lacks_idle(struct mt_context *context, uint64_t bytes)
{
	return mt_counter(&context->counters.pending) &&
	       mt_counter(&context->counters.idle) < bytes && mt_release_over_cap(context, bytes);
}

static MT_COLD void wait_for_oldest(struct mt_context *context, uint64_t bytes)
{
	struct mt_release one = mt_release_all();
	uint64_t start_ns = mt_os_now_ns();

	if (!mt_context_hold(context))
		return;
	one.blocks = 1;
	one.is_pending = one.in_capture = true;
	for (unsigned round = 0; lacks_idle(context, bytes); round++) {
		mt_pending_check(context, UINT32_MAX);
		if (mt_os_now_ns() - start_ns > CAP_WAIT_NS) {
			(void)mt_release(context, &one);
			break;
		}
		mt_driver_wait_round(round);
	}
	mt_context_drop(context);
}

void mt_pending_make_room(struct mt_context *context, uint64_t bytes)
{
	if (mt_unlikely(lacks_idle(context, bytes)))
		wait_for_oldest(context, bytes);
}
