#include "gpu/context.h"

#include "sys/attr.h"
#include "gpu/capture.h"

/* ---- the event of a busy block, whose context is current; no lock is held, the gate is entered or
 * the thread in relaxed capture mode ---- */

static bool record_event(struct mt_context *context, struct mt_block *block)
{
	int result = MT_CU_SUCCESS;

	if (!block->event)
		block->event = mt_context_create_event(&result);
	if (block->event)
		result = mt_pool_driver()->cuCtxRecordEvent(mt_context_handle(context),
							    block->event->event);
	if (mt_likely(block->event && result == MT_CU_SUCCESS))
		return true;
	mt_context_note_result(context, result == MT_CU_NOT_READY ? MT_CU_NOT_SUPPORTED : result);
	return false;
}

static enum mt_fence_status query(struct mt_context *context, const struct mt_block *block)
{
	int result;

	mt_assert(block->is_busy && block->event);
	result = mt_pool_driver()->cuEventQuery(block->event->event);
	if (result == MT_CU_SUCCESS)
		return MT_FENCE_DONE;
	if (result == MT_CU_NOT_READY || result == MT_CU_NOT_PERMITTED)
		return MT_FENCE_NOT_YET;
	mt_context_note_result(context,
			       result == MT_CU_OUT_OF_MEMORY ? MT_CU_NOT_SUPPORTED : result);
	return MT_FENCE_LOST;
}

/* ---- pending blocks; the lock is held ---- */

void mt_fence_remove(struct mt_context *context, struct mt_block *block)
{
	mt_assert(block->state == MT_BLOCK_PENDING && !block->is_busy);
	mt_assert(mt_counter(&context->counters.pending) >= block->bytes);
	mt_line_remove(&context->pending_line, block);
	mt_counter_add(&context->counters.pending, -block->bytes);
	mt_context_note_cached(context, block, false);
	if (block->event)
		mt_context_keep_event(context, block->event);
	block->event = NULL;
}

/* ---- busy blocks ---- */

/* The lock is held on entry, not on return. */
static void begin(struct mt_context *context, struct mt_block *block)
{
	mt_assert(block->state == MT_BLOCK_PENDING && !block->is_busy && !block->is_stale);
	block->is_busy = true;
	context->users++; /* its end waits for this thread */
	mt_lock_unlock(&context->lock);
}

/* With the lock on return. Returns the status; DONE also if the block was forgotten meanwhile. */
static enum mt_fence_status end(struct mt_context *context, struct mt_block *block,
				enum mt_fence_status status)
{
	mt_lock_lock(&context->lock);
	mt_assert(block->is_busy && context->users > 0);
	block->is_busy = false;
	context->users--;
	if (status != MT_FENCE_DONE && !block->is_stale)
		return status;
	mt_fence_remove(context, block);
	if (block->is_stale)
		mt_block_release(block);
	else
		mt_context_add_idle(context, block);
	return MT_FENCE_DONE;
}

/* ---- a free ---- */

/* Records the event, and with `asks` queries it. No lock is held, the block is busy. */
static enum mt_fence_status record(struct mt_context *context, struct mt_block *block, bool asks)
{
	enum mt_fence_status status = MT_FENCE_LOST;

	if (!mt_capture_gate_enter())
		return MT_FENCE_LOST;
	if (mt_context_is_current(context) && mt_context_is_alone(context) &&
	    record_event(context, block))
		status = asks ? query(context, block) : MT_FENCE_NOT_YET;
	mt_capture_gate_leave();
	return status;
}

/* Waits for the block's event, in relaxed capture mode: a capture may begin meanwhile. */
static MT_COLD enum mt_fence_status wait_for(struct mt_context *context,
					     const struct mt_block *block)
{
	int mode = mt_driver_relax(mt_pool_driver()), result = MT_CU_NOT_PERMITTED;

	if (mode != MT_DRIVER_NOT_RELAXED)
		result = mt_pool_driver()->cuEventSynchronize(block->event->event);
	mt_driver_restore(mt_pool_driver(), mode);
	mt_context_note_result(context, result);
	return result == MT_CU_SUCCESS ? MT_FENCE_DONE : MT_FENCE_LOST;
}

enum mt_fence_status mt_fence_free(struct mt_context *context, struct mt_block *block, bool waits)
{
	/* An older pending block is asked about first: on a busy device it is as far as this. */
	bool asks = waits || !context->pending_line.first;
	enum mt_fence_status status;
	int cancel;

	block->state = MT_BLOCK_PENDING;
	block->event = mt_context_take_event(context);
	mt_line_append(&context->pending_line, block);
	mt_counter_add(&context->counters.pending, block->bytes);
	mt_context_note_cached(context, block, true);
	begin(context, block);
	cancel = mt_driver_forbid_cancel();
	status = record(context, block, asks);
	if (mt_unlikely(status == MT_FENCE_NOT_YET && waits))
		status = wait_for(context, block);
	status = end(context, block, status);
	mt_driver_allow_cancel(cancel);
	return status;
}

/* ---- a question ---- */

/* Queries with the block's context current: the thread may have none, if the driver returns an
 * error, or a broken one, whose error it would return. Events that were recorded before a capture
 * began may be queried in relaxed mode. No lock is held, the block is busy. */
static enum mt_fence_status ask(struct mt_context *context, const struct mt_block *block)
{
	enum mt_fence_status status = MT_FENCE_NOT_YET;
	bool is_in_gate = mt_capture_gate_enter(), was_pushed;
	int mode = MT_DRIVER_NOT_RELAXED, result;

	if (mt_unlikely(!is_in_gate) && !mt_context_is_ending(context))
		mode = mt_driver_relax(mt_pool_driver());
	if (mt_unlikely(!is_in_gate && mode == MT_DRIVER_NOT_RELAXED))
		return status;
	was_pushed = mt_context_push(context, &result);
	if (result == MT_CU_SUCCESS)
		status = query(context, block);
	mt_context_pop(was_pushed);
	if (is_in_gate)
		mt_capture_gate_leave();
	mt_driver_restore(mt_pool_driver(), mode);
	return status;
}

enum mt_fence_status mt_fence_ask(struct mt_context *context, struct mt_block *block)
{
	enum mt_fence_status status;
	int cancel;

	begin(context, block);
	cancel = mt_driver_forbid_cancel();
	status = end(context, block, ask(context, block));
	mt_driver_allow_cancel(cancel);
	return status;
}
