#include "gpu/shortage.h"

#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/capture.h"
#include "gpu/fence.h"
#include "gpu/release.h"
#include "gpu/usage.h"
#include "gpu/wait.h"

#define OOM_WAIT_NS   (10 * MT_NS_PER_S) /* for pending blocks, and for threads that free one */
#define UNKNOWN_SHARE 8
#define MORE_TRIES    16 /* after the steps, while other threads release */

enum step { IDLE, READY, WAIT, OTHERS = WAIT + MORE_TRIES };

/* The frees of the device's contexts that have reached the driver, by any way: it changes while
 * memory comes back. */
static uint64_t count_freed(int device)
{
	uint64_t released_count = 0;

	MT_EACH_CONTEXT(context)
	{
		if (mt_context_is_on(context, device))
			released_count += mt_counter(&context->counters.driver_frees);
	}
	return released_count;
}

/* A context that no longer pools may still have cached blocks. */
static bool has_pool(int device)
{
	MT_EACH_CONTEXT(context)
	{
		if (mt_context_is_on(context, device) &&
		    (atomic_load_explicit(&context->mode, memory_order_relaxed) == MT_POOL_POOL ||
		     mt_counter(&context->counters.idle) || mt_counter(&context->counters.pending)))
			return true;
	}
	return false;
}

static void count_shortage(int device, uint32_t delta)
{
	for (int i = 0; i < MT_POOL_DEVICES; i++)
		if (device == MT_ANY_DEVICE || &mt_pool.devices[i] == mt_pool_device(device))
			atomic_fetch_add_explicit(&mt_pool.devices[i].shortages, delta,
						  memory_order_seq_cst);
}

/* -1: the device of the current context, else all. */
static int resolve(int device)
{
	struct mt_context *context = device < 0 ? mt_context_current() : NULL;

	return context ? mt_context_ordinal(context) : device;
}

static const struct mt_rescue_ops *rescue(void)
{
	return atomic_load_explicit(&mt_pool.rescue, memory_order_relaxed);
}

MT_COLD bool mt_shortage_begin(struct mt_shortage *shortage, int device, uint64_t bytes)
{
	uint64_t total;
	bool pools;

	if (!mt_pool_is_up())
		return false;
	device = resolve(device);
	total = device == MT_ANY_DEVICE ? 0 : mt_counter(&mt_pool_device(device)->total_bytes);
	pools = mt_pool_is_used() && has_pool(device);
	*shortage = (struct mt_shortage){
		.device = device, .bytes = bytes, .step = pools ? IDLE : OTHERS};
	if ((total && bytes > total) || (!pools && !(rescue() && rescue()->is_possible())))
		return false;
	shortage->cancel = mt_wait_uncancelled();
	count_shortage(device, 1);
	if (device != MT_ANY_DEVICE && pools)
		mt_pool_note_retry(device);
	shortage->released_count = count_freed(device);
	shortage->start_ns = mt_os_now_ns();
	return true;
}

MT_COLD void mt_shortage_end(struct mt_shortage *shortage)
{
	if (rescue())
		rescue()->end(&shortage->rescue);
	count_shortage(shortage->device, (uint32_t)-1);
	mt_wait_cancellable(shortage->cancel);
}

/* Releases all blocks of the device that are idle. */
static void release_idle(const struct mt_shortage *shortage)
{
	struct mt_release all = mt_release_all(MT_RELEASE_IDLE);

	all.in_capture = true;
	(void)mt_release_device(shortage->device, &all);
}

/* Releases all blocks with which their own context is done: the driver alone would have them free
 * now. */
static void release_ready(const struct mt_shortage *shortage)
{
	MT_EACH_HELD_CONTEXT(context, shortage->device)
	{
		struct mt_release done = mt_release_all(MT_RELEASE_OWN_DONE);
		struct mt_release idle = mt_release_all(MT_RELEASE_IDLE);

		mt_lock_lock(&context->lock);
		mt_fence_poll(context, UINT32_MAX);
		mt_lock_unlock(&context->lock);
		/* What can never be known to be ready, the driver frees: the program called it. */
		if (mt_flag(&context->is_broken))
			done.kind = MT_RELEASE_PENDING;
		done.in_capture = idle.in_capture = true;
		(void)mt_release(context, &idle);
		(void)mt_release(context, &done);
	}
}

/* Returns false where all that is cached is too little beside what is free: no need to wait for it.
 * A call of unknown size that fails beside eight times as much free memory fails for another
 * reason. */
static bool is_enough_cached(const struct mt_shortage *shortage)
{
	uint64_t free_bytes = 0, total_bytes = 0, cached;
	bool is_known;
	int mode;

	if (shortage->device == MT_ANY_DEVICE)
		return true;
	mode = mt_driver_relax(mt_pool_driver());
	is_known = mt_device_memory_ask(shortage->device, &free_bytes, &total_bytes);
	mt_driver_restore(mt_pool_driver(), mode);
	cached = mt_pool_withheld_bytes(shortage->device);
	if (!is_known)
		return true;
	return shortage->bytes ? free_bytes + cached >= shortage->bytes
			       : cached >= free_bytes / UNKNOWN_SHARE;
}

static bool may_complete(const struct mt_shortage *shortage)
{
	bool is = false;

	MT_EACH_CONTEXT(context)
	{
		if (is || !mt_context_is_on(context, shortage->device))
			continue;
		mt_lock_lock(&context->lock);
		is = mt_fence_may_complete(context, shortage->start_ns);
		mt_lock_unlock(&context->lock);
	}
	return is;
}

/* Returns whether more has reached the driver since the last time. */
static bool has_released_more(struct mt_shortage *shortage)
{
	uint64_t released_count;

	mt_release_wait_for_others(shortage->device, OOM_WAIT_NS);
	released_count = count_freed(shortage->device);
	if (released_count == shortage->released_count)
		return false;
	shortage->released_count = released_count;
	return true;
}

/* Waits until something that was pending at the start is done, as the program's own cuMemFree would
 * have waited. */
static bool wait_for_pending(struct mt_shortage *shortage)
{
	for (unsigned round = 0;
	     mt_os_now_ns() - shortage->start_ns < OOM_WAIT_NS && may_complete(shortage); round++) {
		if (!is_enough_cached(shortage))
			return false;
		release_ready(shortage);
		if (has_released_more(shortage))
			return true;
		mt_wait_round(round);
	}
	return false;
}

/* Releases what this process holds. */
static bool release_own(struct mt_shortage *shortage)
{
	if (shortage->step == IDLE) {
		release_idle(shortage);
		shortage->step = READY;
		/* In any case: another thread may have freed between the failed call and the begin.
		 */
		(void)has_released_more(shortage);
		return true;
	}
	if (shortage->step == READY) {
		release_ready(shortage);
		shortage->step = WAIT;
		if (has_released_more(shortage))
			return true;
	}
	if (shortage->step == WAIT && wait_for_pending(shortage))
		return true;
	if (shortage->step++ >= OTHERS)
		return false;
	release_idle(shortage);
	return has_released_more(shortage);
}

MT_COLD bool mt_shortage_next(struct mt_shortage *shortage)
{
	if (shortage->step < OTHERS && release_own(shortage))
		return true;
	shortage->step = OTHERS;
	if (!rescue() || shortage->is_last)
		return false;
	/* Memory may have come free in another way while the others were waited for. */
	shortage->is_last = !rescue()->next(&shortage->rescue, shortage->device, shortage->bytes);
	return !shortage->is_last || shortage->rescue.began_ns;
}
