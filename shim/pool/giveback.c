#include "pool/giveback.h"

#include "base/os.h"
#include "pool/capture.h"
#include "pool/fence.h"
#include "pool/room.h"
#include "pool/wait.h"

#define PENDING_MAX_NS (60 * MT_NS_PER_S) /* pending for longer, or for ten decays: the driver shall wait for it */
#define HAND_OVER_MAX  32                 /* blocks that one cuMemFree hands over */

int mt_giveback_relax(int mode)
{
	if (mt_pool_driver()->cuThreadExchangeStreamCaptureMode)
		(void)mt_pool_driver()->cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

/* The driver permits no call on this thread now: the block waits behind a fence again, like one just freed. */
static bool take_in(struct mt_context *context, struct mt_block *block)
{
	bool is_in;

	mt_lock_take(&context->lock);
	is_in = mt_fence_add(context, block, mt_os_coarse_ns());
	if (is_in)
		(void)mt_blocks_insert(block);
	mt_lock_drop(&context->lock);
	return is_in;
}

/* The block is in no list and in no table any more. The context is held, and its end waits for us. Bytes given back; *out_refused: not on
 * this thread now. */
static uint64_t send(struct mt_context *context, struct mt_block *block, bool is_decay, bool *out_refused)
{
	uint64_t base = atomic_load_explicit(&block->base, memory_order_relaxed);
	uint64_t bytes = block->bytes;
	int result;
	bool was_pushed = mt_context_enter(context, true, &result);

	if (result == MT_CU_SUCCESS)
		result = mt_pool_driver()->cuMemFree_v2(base);
	mt_context_exit(was_pushed);
	*out_refused = result == MT_CU_NOT_PERMITTED;
	if (*out_refused && take_in(context, block))
		return 0;
	if (result == MT_CU_SUCCESS)
		mt_room_freed(mt_context_device(context), bytes);
	else if (mt_context_is_sticky(result))
		mt_context_note(context, result); /* else: that one block is lost, the fences are as good as before */
	mt_lock_take(&context->lock);
	mt_counter_add(&context->counters.driver_frees, 1);
	if (result == MT_CU_SUCCESS) {
		mt_counter_add(&context->counters.returned, bytes);
		mt_counter_add(&context->counters.decayed, is_decay ? bytes : 0);
	}
	atomic_store_explicit(&block->context, NULL, memory_order_relaxed);
	block->state = MT_BLOCK_UNUSED;
	mt_lock_drop(&context->lock);
	mt_block_release(block);
	return result == MT_CU_SUCCESS ? bytes : 0;
}

static struct mt_block *leave(struct mt_block *block)
{
	block->state = MT_BLOCK_LEAVING;
	(void)mt_blocks_remove(block);
	return block;
}

static struct mt_block *pick_idle(struct mt_context *context, const struct mt_giveback *rule)
{
	struct mt_block *block = context->idle_line.first;

	if (!block || block->since_ns > rule->freed_until_ns)
		return NULL;
	mt_line_remove(&context->idle_line, block);
	mt_bins_remove(context->idle, block);
	mt_counter_add(&context->counters.idle, -block->bytes);
	return leave(block);
}

static struct mt_block *pick_pending(struct mt_context *context, const struct mt_giveback *rule, bool only_lost)
{
	struct mt_group *group = mt_fence_oldest(context);
	struct mt_block *block;

	while (group && only_lost && !group->is_lost && !group->lacks_events)
		group = group->next;
	if (!group || group->is_busy)
		return NULL;
	block = group->blocks.first;
	if (!block || block->since_ns > rule->freed_until_ns)
		return NULL;
	mt_fence_remove(context, block);
	return leave(block);
}

/* A driver that cannot be told that the call does not matter to captures: none may begin during it. */
static bool has_modes(void)
{
	return mt_pool_driver()->cuThreadExchangeStreamCaptureMode != NULL;
}

/* The context is held: who ends it sets is_ending before looking at who holds it. */
static bool enter(struct mt_context *context, const struct mt_giveback *rule)
{
	if (atomic_load_explicit(&context->is_ending, memory_order_seq_cst))
		return false;
	if (!has_modes())
		return mt_capture_enter();
	return rule->in_capture || !mt_capture_is_open();
}

static void leave_driver(void)
{
	if (!has_modes())
		mt_capture_leave();
}

static bool is_done(const struct mt_giveback *rule)
{
	return !rule->blocks || !rule->bytes ||
	       (rule->is_background && atomic_load_explicit(&mt_pool.holds_back, memory_order_relaxed));
}

static uint64_t give_some(struct mt_context *context, struct mt_giveback *rule, bool is_pending, bool only_lost)
{
	uint64_t given = 0;
	bool is_refused = false;

	while (!is_refused && !is_done(rule) && enter(context, rule)) {
		struct mt_block *block;
		uint64_t bytes;

		mt_lock_take(&context->lock);
		block = is_pending ? pick_pending(context, rule, only_lost) : pick_idle(context, rule);
		mt_lock_drop(&context->lock);
		bytes = block ? block->bytes : 0;
		if (block)
			given += send(context, block, rule->is_decay, &is_refused);
		leave_driver();
		if (!block)
			break;
		rule->blocks--;
		rule->bytes -= bytes < rule->bytes ? bytes : rule->bytes;
	}
	return given;
}

static uint64_t give(struct mt_context *context, struct mt_giveback *rule, bool is_pending, bool only_lost)
{
	int cancel = mt_wait_uncancelled();
	int mode = mt_giveback_relax(MT_CU_CAPTURE_RELAXED);
	uint64_t given = give_some(context, rule, is_pending, only_lost);

	(void)mt_giveback_relax(mode);
	mt_wait_cancellable(cancel);
	return given;
}

uint64_t mt_giveback_idle(struct mt_context *context, struct mt_giveback *rule)
{
	return give(context, rule, false, false);
}

uint64_t mt_giveback_pending(struct mt_context *context, struct mt_giveback *rule, bool only_lost)
{
	return give(context, rule, true, only_lost);
}

static uint64_t pending_max_ns(void)
{
	uint64_t ten = mt_counter(&mt_pool.decay_ms) * 10 * MT_NS_PER_MS;

	return ten > PENDING_MAX_NS ? ten : PENDING_MAX_NS;
}

static bool has_old(struct mt_context *context, uint64_t now_ns)
{
	const struct mt_group *group = mt_fence_oldest(context);

	return group && now_ns > group->opened_ns && now_ns - group->opened_ns > pending_max_ns();
}

uint64_t mt_giveback_excess(int device)
{
	uint64_t cap = mt_counter(&mt_pool.max_idle_bytes), pct = mt_counter(&mt_pool.max_idle_pct);
	uint64_t total = mt_counter(&mt_pool_device(device)->total_bytes), cached;

	if (pct < 100 && total && (!cap || total / 100 * pct < cap))
		cap = total / 100 * pct;
	else if (!cap)
		return 0;
	cached = mt_pool_cached_bytes(device);
	return cached > cap ? cached - cap : 0;
}

bool mt_giveback_is_overdue(struct mt_context *context, uint64_t now_ns)
{
	/* Without caps, which is the default, this is two looks. */
	return context->lost_groups > 0 || has_old(context, now_ns) || mt_counter(&mt_pool.max_idle_bytes) ||
	       mt_counter(&mt_pool.max_idle_pct) < 100;
}

void mt_giveback_overdue(struct mt_context *context, uint64_t now_ns)
{
	uint64_t max_ns = pending_max_ns();
	struct mt_giveback lost = {UINT64_MAX, UINT64_MAX, HAND_OVER_MAX, false, false, false};
	struct mt_giveback old = {now_ns > max_ns ? now_ns - max_ns : 0, UINT64_MAX, HAND_OVER_MAX, false, false, false};
	int device = atomic_load_explicit(&context->device, memory_order_relaxed);
	struct mt_giveback over = {UINT64_MAX, mt_giveback_excess(device), UINT32_MAX, false, false, false};
	uint32_t life = atomic_load_explicit(&context->life, memory_order_relaxed);

	if (!mt_context_hold(context, life))
		return;
	(void)mt_giveback_pending(context, &lost, true);
	(void)mt_giveback_pending(context, &old, false);
	if (over.bytes)
		(void)mt_giveback_idle(context, &over);
	mt_context_drop(context);
	MT_EACH_CONTEXT(other) {
		if (!over.bytes || atomic_load_explicit(&other->device, memory_order_relaxed) != device)
			continue;
		life = atomic_load_explicit(&other->life, memory_order_relaxed);
		if (other == context || !mt_context_hold(other, life))
			continue;
		(void)mt_giveback_idle(other, &over);
		mt_context_drop(other);
	}
	if (over.bytes && mt_context_hold(context, life = atomic_load_explicit(&context->life, memory_order_relaxed))) {
		(void)mt_giveback_pending(context, &over, false);
		mt_context_drop(context);
	}
}
