#include "pool/room.h"

#include "base/attr.h"
#include "base/os.h"
#include "pool/capture.h"
#include "pool/fence.h"
#include "pool/giveback.h"
#include "pool/wait.h"

#define OOM_WAIT_NS (10 * MT_NS_PER_S)

static void judge(struct mt_pool_device *device)
{
	uint64_t total = mt_counter(&device->total_bytes), pct = mt_counter(&mt_pool.low_free_pct);
	bool is_low = total && mt_counter(&device->measured_ns) && mt_counter(&device->free_bytes) < total / 100 * pct;

	if (atomic_load_explicit(&device->is_low, memory_order_relaxed) != is_low)
		atomic_store_explicit(&device->is_low, is_low, memory_order_relaxed);
}

void mt_room_measure(struct mt_context *context, uint64_t now_ns)
{
	struct mt_pool_device *device = mt_context_device(context);
	uint64_t last = mt_counter(&device->measured_ns);
	size_t free_bytes = 0, total_bytes = 0;
	bool was_pushed;
	int result, cancel;

	if (!mt_counter(&mt_pool.low_free_pct) || !mt_pool_driver()->cuMemGetInfo_v2)
		return;
	if (last && now_ns - last < MT_ROOM_MEASURE_NS)
		return;
	atomic_store_explicit(&device->measured_ns, now_ns ? now_ns : 1, memory_order_relaxed);
	if (!mt_capture_enter())
		return;
	cancel = mt_wait_uncancelled();
	was_pushed = mt_context_enter(context, true, &result);
	if (result == MT_CU_SUCCESS)
		result = mt_pool_driver()->cuMemGetInfo_v2(&free_bytes, &total_bytes);
	mt_context_exit(was_pushed);
	mt_capture_leave();
	mt_wait_cancellable(cancel);
	if (result != MT_CU_SUCCESS) {
		atomic_store_explicit(&device->measured_ns, 0, memory_order_relaxed);
		return;
	}
	atomic_store_explicit(&device->total_bytes, total_bytes, memory_order_relaxed);
	atomic_store_explicit(&device->free_bytes, free_bytes, memory_order_relaxed);
	judge(device);
}

/* The gate is entered, the context held. */
static bool ask(struct mt_context *context, uint64_t *out_free_bytes, uint64_t *out_total_bytes)
{
	size_t free_bytes = 0, total_bytes = 0;
	int result;
	bool was_pushed = mt_context_enter(context, true, &result);

	if (result == MT_CU_SUCCESS)
		result = mt_pool_driver()->cuMemGetInfo_v2(&free_bytes, &total_bytes);
	mt_context_exit(was_pushed);
	if (result != MT_CU_SUCCESS)
		return false;
	*out_free_bytes = free_bytes;
	*out_total_bytes = total_bytes;
	return true;
}

bool mt_pool_memory(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes)
{
	bool known = false;

	if (!atomic_load_explicit(&mt_pool.is_up, memory_order_relaxed) || !mt_pool_driver()->cuMemGetInfo_v2)
		return false;
	MT_EACH_CONTEXT(context) {
		uint32_t life = atomic_load_explicit(&context->life, memory_order_relaxed);

		if (known || atomic_load_explicit(&context->device, memory_order_relaxed) != device ||
		    atomic_load_explicit(&context->is_gone, memory_order_relaxed) || !mt_context_hold(context, life))
			continue;
		if (mt_capture_enter()) {
			known = ask(context, out_free_bytes, out_total_bytes);
			mt_capture_leave();
		}
		mt_context_drop(context);
	}
	return known;
}

void mt_room_taken(struct mt_pool_device *device, uint64_t bytes)
{
	uint64_t now = mt_counter(&device->free_bytes);

	/* An estimate until the next measure: a lost update does no harm. */
	atomic_store_explicit(&device->free_bytes, now > bytes ? now - bytes : 0, memory_order_relaxed);
	judge(device);
}

void mt_room_freed(struct mt_pool_device *device, uint64_t bytes)
{
	mt_counter_add(&device->free_bytes, bytes);
	judge(device);
}

bool mt_room_is_low(struct mt_context *context)
{
	return atomic_load_explicit(&mt_context_device(context)->is_low, memory_order_relaxed);
}

bool mt_room_is_glutted(struct mt_context *context)
{
	return mt_counter(&context->counters.pending) > mt_counter(&mt_context_device(context)->total_bytes) / 8;
}

bool mt_room_is_short(struct mt_context *context)
{
	return mt_room_is_low(context) ||
	       mt_giveback_excess(atomic_load_explicit(&context->device, memory_order_relaxed)) > 0;
}

/* Everything idle of a device, up to a rule. */
static void give_back_device(int device, struct mt_giveback *rule)
{
	MT_EACH_CONTEXT(context) {
		uint32_t life = atomic_load_explicit(&context->life, memory_order_relaxed);

		if (atomic_load_explicit(&context->device, memory_order_relaxed) != device || !mt_context_hold(context, life))
			continue;
		(void)mt_giveback_idle(context, rule);
		mt_context_drop(context);
	}
}

void mt_room_collect(struct mt_context *context, uint64_t bytes)
{
	uint64_t permille = mt_counter(&mt_pool.gc_permille);
	uint64_t total = mt_counter(&mt_context_device(context)->total_bytes);
	struct mt_giveback rule = MT_GIVEBACK_ALL;
	struct mt_pool_usage usage;
	int device = atomic_load_explicit(&context->device, memory_order_relaxed);
	uint64_t allowed = total / 1000 * permille;

	if (mt_likely(permille == 0) || total == 0)
		return;
	mt_pool_usage(device, &usage);
	if (usage.reserved_bytes + bytes <= allowed)
		return;
	rule.bytes = usage.reserved_bytes + bytes - allowed;
	give_back_device(device, &rule);
}

uint64_t mt_room_mark(int device)
{
	uint64_t returned = mt_counter(&mt_pool_device(device)->past.returned);

	MT_EACH_CONTEXT(context) {
		if (mt_pool_device(atomic_load_explicit(&context->device, memory_order_relaxed)) == mt_pool_device(device))
			returned += mt_counter(&context->counters.returned);
	}
	return returned;
}

/* The oldest group that was there at `start` and may still become ready; the lock is held. */
static struct mt_group *next_to_wait_for(struct mt_context *context, uint64_t start_ns)
{
	struct mt_group *group = mt_fence_oldest_hopeful(context);

	return group && group->opened_ns <= start_ns ? group : NULL;
}

/* Waits for what was pending at start. The context is held. */
static void drain(struct mt_context *context, uint64_t start_ns)
{
	unsigned round = 0;
	struct mt_group *group;

	mt_lock_take(&context->lock);
	while ((group = next_to_wait_for(context, start_ns)) != NULL) {
		enum mt_fence_answer answer = MT_FENCE_NOT_YET;

		if (!group->is_busy)
			answer = mt_fence_settle(context, group, true);
		if (answer == MT_FENCE_CAPTURE)
			break;
		if (answer != MT_FENCE_NOT_YET)
			continue;
		if (!group->is_busy && group->lacks_events)
			break; /* there is no memory for events, and waiting makes none */
		if (mt_pool.is_lazy && !mt_events_may_sync())
			break;
		mt_lock_drop(&context->lock);
		if (mt_os_now_ns() - start_ns > OOM_WAIT_NS)
			return;
		mt_wait_round(round++);
		mt_lock_take(&context->lock);
	}
	mt_lock_drop(&context->lock);
}

/* What cannot be fenced goes to the driver's cuMemFree, which waits for its work: we are in a call of the program's. */
static void give_back_unfenced(int device)
{
	MT_EACH_CONTEXT(context) {
		uint32_t life = atomic_load_explicit(&context->life, memory_order_relaxed);
		struct mt_giveback all = MT_GIVEBACK_ALL;

		if (atomic_load_explicit(&context->device, memory_order_relaxed) != device || !mt_context_hold(context, life))
			continue;
		(void)mt_giveback_pending(context, &all, true);
		mt_context_drop(context);
	}
}

static uint64_t make(int device, uint64_t mark)
{
	uint64_t start_ns = mt_os_now_ns();
	struct mt_giveback all = MT_GIVEBACK_ALL;
	unsigned round = 0;

	atomic_fetch_add_explicit(&mt_pool.flushers, 1, memory_order_relaxed);
	give_back_device(device, &all);
	MT_EACH_CONTEXT(context) {
		uint32_t life = atomic_load_explicit(&context->life, memory_order_relaxed);

		if (atomic_load_explicit(&context->device, memory_order_relaxed) != device || !mt_context_hold(context, life))
			continue;
		drain(context, start_ns);
		mt_context_drop(context);
	}
	all = MT_GIVEBACK_ALL;
	give_back_device(device, &all);
	give_back_unfenced(device);
	atomic_fetch_sub_explicit(&mt_pool.flushers, 1, memory_order_relaxed);
	/* What another thread's flush has in its hands counts too: with it the second try succeeds. Ours is over, so two such
	 * threads do not wait for each other. */
	while (atomic_load_explicit(&mt_pool.flushers, memory_order_relaxed) > 0 && mt_os_now_ns() - start_ns < OOM_WAIT_NS)
		mt_wait_round(round++);
	return mt_room_mark(device) - mark;
}

/* Another thread ends a context, and no fence is asked meanwhile: rather late than an error that need not be. */
static MT_COLD void await_ends(void)
{
	uint64_t start_ns = mt_os_now_ns();
	int cancel = mt_wait_uncancelled();

	for (unsigned round = 0; mt_capture_is_ending() && mt_os_now_ns() - start_ns < OOM_WAIT_NS; round++)
		mt_wait_round(round);
	mt_wait_cancellable(cancel);
}

/* What needs no fence to be asked about. */
static uint64_t give_idle(int device, uint64_t mark)
{
	struct mt_giveback idle = MT_GIVEBACK_ALL;

	idle.in_capture = true;
	give_back_device(device, &idle);
	return mt_room_mark(device) - mark;
}

MT_COLD uint64_t mt_room_make(int device, uint64_t mark, bool in_capture)
{
	uint64_t made = 0;
	int cancel;

	if (mt_capture_is_open() && !in_capture && !mt_capture_is_ending())
		return 0;
	cancel = mt_wait_uncancelled();
	atomic_fetch_add_explicit(&mt_pool_device(device)->retries, 1, memory_order_relaxed);
	if (mt_capture_is_open())
		made = give_idle(device, mark);
	if (!made)
		await_ends();
	if (!mt_capture_is_open())
		made = make(device, mark);
	mt_wait_cancellable(cancel);
	return made;
}
