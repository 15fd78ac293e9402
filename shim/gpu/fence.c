/* gpu/fence.c -- the events by which a freed block becomes idle (gpu/context.h), and the blocks
 * that wait for them (gpu/pool.h). */
#include "gpu/capture.h"
#include "gpu/context.h"
#include "gpu/pool.h"
#include "sys/attr.h"
#include "sys/os.h"

#define CAP_WAIT_NS (100 * MT_NS_PER_MS) /* then the driver's cuMemFree waits */

static struct mt_slab events = MT_SLAB(struct mt_event);

/* Of a busy block: its work is done, is not yet, or that can never be known. */
enum status { STATUS_DONE, STATUS_NOT_YET, STATUS_LOST };

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

static enum status query(struct mt_context *context, const struct mt_block *block)
{
	int result;

	mt_assert(block->event);
	result = mt_pool_driver()->cuEventQuery(block->event->event);
	if (result == MT_CU_SUCCESS)
		return STATUS_DONE;
	if (result == MT_CU_NOT_READY || result == MT_CU_NOT_PERMITTED)
		return STATUS_NOT_YET;
	mt_context_note_result(context,
			       result == MT_CU_OUT_OF_MEMORY ? MT_CU_NOT_SUPPORTED : result);
	return STATUS_LOST;
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
static enum status record(struct mt_context *context, struct mt_block *block, bool asks)
{
	enum status status = STATUS_LOST;
	int result = MT_CU_SUCCESS;

	if (!mt_capture_gate_enter())
		return status;
	if (mt_context_is_current(context) && mt_context_is_alone(context)) {
		if (mt_unlikely(!block->event))
			block->event = create_event(&result);
		if (block->event)
			result = mt_pool_driver()->cuCtxRecordEvent(mt_context_handle(context),
								    block->event->event);
		if (mt_likely(result == MT_CU_SUCCESS))
			status = asks ? query(context, block) : STATUS_NOT_YET;
		else
			mt_context_note_result(
				context, result == MT_CU_NOT_READY ? MT_CU_NOT_SUPPORTED : result);
	}
	mt_capture_gate_leave();
	return status;
}

/* Waits for the block's event, in relaxed capture mode: a capture may begin meanwhile. */
static MT_COLD enum status wait_for(struct mt_context *context, const struct mt_block *block)
{
	int mode = mt_driver_relax(mt_pool_driver()), result = MT_CU_NOT_PERMITTED;

	if (mode != MT_DRIVER_NOT_RELAXED)
		result = mt_pool_driver()->cuEventSynchronize(block->event->event);
	mt_driver_restore(mt_pool_driver(), mode);
	mt_context_note_result(context, result);
	return result == MT_CU_SUCCESS ? STATUS_DONE : STATUS_LOST;
}

/* ---- a question ---- */

/* Queries with the block's context current: the thread may have none, if the driver returns an
 * error, or a broken one, whose error it would return. Events that were recorded before a capture
 * began may be queried in relaxed mode. No lock is held, the block is busy. */
static enum status ask(struct mt_context *context, const struct mt_block *block)
{
	enum status status = STATUS_NOT_YET;
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

/* ---- busy blocks ---- */

enum question { ASK, RECORD, RECORD_AND_ASK, RECORD_AND_WAIT };

/* Has the driver asked about a busy block, with the lock held on entry and on return, but not in
 * between. DONE: the block is idle, or was forgotten; else it is still busy. */
static enum status settle(struct mt_context *context, struct mt_block *block,
			  enum question question)
{
	enum status status;
	int cancel;

	context->users++; /* its end waits for this thread */
	mt_lock_unlock(&context->lock);
	cancel = mt_driver_forbid_cancel();
	status = question == ASK ? ask(context, block) : record(context, block, question != RECORD);
	if (mt_unlikely(status == STATUS_NOT_YET && question == RECORD_AND_WAIT))
		status = wait_for(context, block);
	mt_driver_allow_cancel(cancel);
	mt_lock_lock(&context->lock);
	mt_assert(context->users > 0);
	context->users--;
	if (mt_unlikely(block->state == MT_BLOCK_STALE)) {
		mt_block_move(context, block, MT_BLOCK_UNUSED);
		return STATUS_DONE;
	}
	mt_assert(block->state == MT_BLOCK_BUSY);
	if (status == STATUS_DONE)
		mt_block_move(context, block, MT_BLOCK_IDLE);
	return status;
}

bool mt_fence_free(struct mt_context *context, struct mt_block *block, bool waits)
{
	enum question question = RECORD_AND_WAIT;
	enum status status;

	/* An older pending block is asked about first: on a busy device it is as far as this. */
	if (!waits)
		question = context->pending_line.first ? RECORD : RECORD_AND_ASK;
	mt_block_move(context, block, MT_BLOCK_BUSY);
	block->event = context->free_events;
	if (mt_likely(block->event != NULL))
		context->free_events = block->event->next;
	status = settle(context, block, question);
	if (status == STATUS_NOT_YET) {
		block->state = MT_BLOCK_PENDING;
		mt_line_append(&context->pending_line, block);
		if (context->pending_line.first != block)
			(void)mt_pending_poll(context, 2);
	}
	return status != STATUS_LOST;
}

/* About a pending block, which stays pending unless DONE. */
static enum status ask_pending(struct mt_context *context, struct mt_block *block)
{
	enum status status;

	mt_line_remove(&context->pending_line, block);
	block->state = MT_BLOCK_BUSY;
	status = settle(context, block, ASK);
	if (status != STATUS_DONE) {
		block->state = MT_BLOCK_PENDING;
		mt_line_prepend(&context->pending_line, block);
	}
	return status;
}

/* ---- blocks that a free has left pending: MT_CUDA_FREE=async alone (gpu/pool.h) ---- */

bool mt_pending_poll(struct mt_context *context, unsigned limit)
{
	bool has_idle = false;

	for (; context->pending_line.first && limit > 0; limit--) {
		if (ask_pending(context, context->pending_line.first) != STATUS_DONE)
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

/* Returns whether the next block of this size would pass the cap, and none is idle for it. */
static bool lacks_idle(struct mt_context *context, uint64_t bytes)
{
	return mt_load_relaxed(&context->counters.pending_bytes) &&
	       mt_load_relaxed(&context->counters.idle_bytes) < bytes &&
	       mt_release_over_cap(context, bytes);
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
