/* gpu/fence.c -- the events by which a freed block becomes idle (gpu/context.h), and the blocks
 * that wait for them (gpu/pool.h). */
#include "gpu/capture.h"
#include "gpu/context.h"
#include "gpu/pool.h"
#include "sys/attr.h"
#include "sys/os.h"

static struct mt_slab events = MT_SLAB(struct mt_event);

/* ---- the event of a busy block, whose context is current; no lock is held, the gate is entered or
 * the thread in relaxed capture mode ---- */

static MT_COLD struct mt_event *create_event(int *out_result)
{
	struct mt_event *event = mt_slab_alloc(&events);

	*out_result = MT_CU_OUT_OF_MEMORY;
	if (!event)
		return NULL;
	*out_result = mt_pool_driver()->cuEventCreate(&event->event, MT_CU_EVENT_DISABLE_TIMING);
	if (*out_result == MT_CU_SUCCESS)
		return event;
	mt_slab_free(&events, event);
	return NULL;
}

/* What the driver's reply to cuEventQuery means. */
static enum mt_fence_status status_of(struct mt_context *context, int result)
{
	if (result == MT_CU_SUCCESS)
		return MT_FENCE_DONE;
	if (result == MT_CU_NOT_READY || result == MT_CU_NOT_PERMITTED)
		return MT_FENCE_NOT_YET;
	mt_context_note_result(context,
			       result == MT_CU_OUT_OF_MEMORY ? MT_CU_NOT_SUPPORTED : result);
	return MT_FENCE_LOST;
}

void mt_fence_forget_events(struct mt_context *context)
{
	struct mt_event *event;

	while ((event = context->free_events)) {
		context->free_events = event->next;
		mt_slab_free(&events, event);
	}
}

/* ---- a free ---- */

/* Records the event, and with `asks` queries it. No lock is held, the block is busy. */
static enum mt_fence_status record(struct mt_context *context, struct mt_block *block, bool asks)
{
	enum mt_fence_status status = MT_FENCE_LOST;
	int result = MT_CU_SUCCESS;

	if (!mt_capture_gate_enter())
		return status;
	if (mt_context_is_single(context)) {
		if (mt_unlikely(!block->event))
			block->event = create_event(&result);
		if (block->event)
			result = mt_pool_driver()->cuCtxRecordEvent(mt_context_handle(context),
								    block->event->event);
		if (mt_likely(result == MT_CU_SUCCESS)) {
			result = asks ? mt_pool_driver()->cuEventQuery(block->event->event)
				      : MT_CU_NOT_READY;
			status = mt_likely(result == MT_CU_SUCCESS) ? MT_FENCE_DONE
								    : status_of(context, result);
		} else {
			mt_context_note_result(
				context, result == MT_CU_NOT_READY ? MT_CU_NOT_SUPPORTED : result);
		}
	}
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
		status = status_of(context, mt_pool_driver()->cuEventQuery(block->event->event));
	mt_context_pop(was_pushed);
	if (is_in_gate)
		mt_capture_gate_leave();
	mt_driver_restore(mt_pool_driver(), mode);
	return status;
}

enum mt_fence_status mt_fence_settle(struct mt_context *context, struct mt_block *block, bool waits)
{
	bool is_new = block->state == MT_BLOCK_LIVE, has_older = context->pending_line.first;
	enum mt_fence_status status;
	int cancel;

	mt_block_move(context, block, MT_BLOCK_BUSY);
	context->users++; /* its end waits for this thread */
	mt_lock_unlock(&context->lock);
	cancel = mt_driver_forbid_cancel();
	/* On a busy device an older block is as far as this one. */
	status = is_new ? record(context, block, waits || !has_older) : ask(context, block);
	if (mt_unlikely(status == MT_FENCE_NOT_YET && is_new && waits))
		status = wait_for(context, block);
	mt_driver_allow_cancel(cancel);
	mt_lock_lock(&context->lock);
	mt_assert(context->users > 0);
	context->users--;
	if (mt_unlikely(block->state == MT_BLOCK_STALE)) {
		mt_block_move(context, block, MT_BLOCK_UNUSED);
		return MT_FENCE_DONE;
	}
	mt_assert(block->state == MT_BLOCK_BUSY);
	if (status == MT_FENCE_DONE) {
		mt_block_move(context, block, MT_BLOCK_IDLE);
	} else if (!is_new || status == MT_FENCE_NOT_YET) {
		block->state = MT_BLOCK_PENDING;
		context->needs_room = true;
		mt_line_insert(&context->pending_line, block,
			       is_new ? context->pending_line.last : NULL);
		if (is_new && context->pending_line.first != block)
			(void)mt_pending_poll(context, 2);
	}
	return status;
}

/* ---- blocks that a free has left pending: MT_CUDA_FREE=async alone (gpu/pool.h) ---- */

bool mt_pending_poll(struct mt_context *context, unsigned limit)
{
	bool has_idle = false;

	for (; context->pending_line.first && limit > 0; limit--) {
		if (mt_fence_settle(context, context->pending_line.first, false) != MT_FENCE_DONE)
			break;
		context->needs_room = has_idle = true;
	}
	return has_idle;
}

void mt_pending_check(struct mt_context *context, unsigned limit)
{
	mt_lock_lock(&context->lock);
	(void)mt_pending_poll(context, limit);
	mt_lock_unlock(&context->lock);
}
