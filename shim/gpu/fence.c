#include "gpu/context.h"

#include "sys/attr.h"
#include "gpu/capture.h"

/* ---- events; no lock is held, the gate is entered or the thread in relaxed capture mode ---- */

/* The context is held, and current or another one. */
static bool record_in(struct mt_context *context, struct mt_event *event, struct mt_event **list)
{
	int result = MT_CU_SUCCESS;
	bool was_pushed;

	if (!event) {
		was_pushed = mt_context_push(context, &result);
		if (result == MT_CU_SUCCESS)
			event = mt_context_create_event(context, &result);
		mt_context_pop(was_pushed);
	}
	if (event) {
		event->next = *list;
		*list = event;
		result = mt_pool_driver()->cuCtxRecordEvent(mt_context_handle(context),
							    event->event);
	}
	if (mt_likely(event && result == MT_CU_SUCCESS))
		return true;
	mt_context_note_result(context, result == MT_CU_NOT_READY ? MT_CU_NOT_SUPPORTED : result);
	return false;
}

static bool record_other(struct mt_context *other, struct mt_event **list)
{
	struct mt_event *event;
	bool is_recorded;

	mt_lock_lock(&other->lock);
	if (!mt_context_handle(other) || mt_flag(&other->is_dead)) {
		mt_lock_unlock(&other->lock);
		return true;
	}
	if (mt_flag(&other->is_broken)) {
		/* It may still run work and cannot be fenced. */
		mt_lock_unlock(&other->lock);
		return false;
	}
	other->users++;
	event = mt_context_take_event(other);
	mt_lock_unlock(&other->lock);
	is_recorded = record_in(other, event, list);
	mt_context_drop(other);
	return is_recorded || mt_flag(&other->is_dead);
}

/* The meaning of a result of cuEventQuery. */
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

/* With the other context current: the driver replies with an error of the current one, whatever it
 * is asked. */
static enum mt_fence_status query_other(const struct mt_event *event)
{
	struct mt_context *other = event->context;
	enum mt_fence_status status = MT_FENCE_DONE;
	bool was_pushed;
	int result;

	if (!mt_context_hold_as(other, event->init))
		return MT_FENCE_DONE;
	if (!mt_flag(&other->is_dead)) {
		was_pushed = mt_context_push(other, &result);
		if (result == MT_CU_SUCCESS)
			result = mt_pool_driver()->cuEventQuery(event->event);
		mt_context_pop(was_pushed);
		status = status_of(other, result);
	}
	if (status == MT_FENCE_LOST && mt_flag(&other->is_dead))
		status = MT_FENCE_DONE;
	mt_context_drop(other);
	return status;
}

/* Takes events that are done off the block. *out_own: its own one; those of others go back. */
static enum mt_fence_status query(struct mt_context *context, struct mt_block *block,
				  struct mt_event **out_own)
{
	struct mt_event *event;

	mt_assert(block->is_busy && block->state == MT_BLOCK_PENDING);
	while ((event = block->events)) {
		bool is_own = event->context == context;
		enum mt_fence_status status =
			is_own ? status_of(context, mt_pool_driver()->cuEventQuery(event->event))
			       : query_other(event);

		if (status != MT_FENCE_DONE)
			return status;
		block->events = event->next;
		event->next = NULL;
		/* the first one: see mt_fence_is_own_done */
		mt_assert(!block->events || block->events->context != context);
		if (is_own)
			*out_own = event;
		else
			mt_context_return_events(event);
	}
	return MT_FENCE_DONE;
}

/* ---- pending blocks ---- */

void mt_fence_remove(struct mt_context *context, struct mt_block *block)
{
	mt_assert(block->state == MT_BLOCK_PENDING && !block->is_busy);
	mt_assert(mt_counter(&context->counters.pending) >= block->bytes);
	mt_line_remove(&context->pending_line, block);
	mt_counter_add(&context->counters.pending, -block->bytes);
	mt_context_note_cached(context, block, false);
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

/* own: an event of the context that is free again; NULL: none. With the lock on return. Returns
 * the status; DONE also if the block was forgotten meanwhile. */
static enum mt_fence_status end(struct mt_context *context, struct mt_block *block,
				struct mt_event *own, enum mt_fence_status status)
{
	if (block->is_stale)
		mt_fence_return_events(block);
	mt_lock_lock(&context->lock);
	if (own)
		mt_context_keep_event(context, own);
	mt_assert(block->is_busy && context->users > 0);
	block->is_busy = false;
	context->users--;
	if (block->is_stale) {
		mt_fence_remove(context, block);
		mt_block_release(block);
		return MT_FENCE_DONE;
	}
	if (status == MT_FENCE_DONE) {
		mt_assert(!block->events);
		mt_fence_remove(context, block);
		mt_context_add_idle(context, block);
	}
	return status;
}

/* Queries with the block's context current: the thread may have none, if the driver returns an
 * error, or a broken one, whose error it would return. Events that were recorded before a capture
 * began may be queried in relaxed mode. No lock is held, the block is busy. */
static enum mt_fence_status ask(struct mt_context *context, struct mt_block *block,
				struct mt_event **out_own)
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
		status = query(context, block, out_own);
	mt_context_pop(was_pushed);
	if (is_in_gate)
		mt_capture_gate_leave();
	mt_driver_restore(mt_pool_driver(), mode);
	return status;
}

/* ---- a free ---- */

void mt_fence_return_events(struct mt_block *block)
{
	struct mt_event *events = block->events;

	block->events = NULL;
	mt_context_return_events(events);
}

void mt_fence_add(struct mt_context *context, struct mt_block *block)
{
	block->state = MT_BLOCK_PENDING;
	mt_line_append(&context->pending_line, block);
	mt_counter_add(&context->counters.pending, block->bytes);
	mt_context_note_cached(context, block, true);
}

/* Undoes a push over no context at all: the driver's own free is what replies there. */
static MT_COLD bool keep_push(struct mt_context *context, int *out_result)
{
	struct CUctx_st *before = NULL;

	mt_context_pop(true);
	if (mt_pool_driver()->cuCtxGetCurrent(&before) == MT_CU_SUCCESS && before)
		return mt_context_push(context, out_result);
	*out_result = MT_CU_INVALID_CONTEXT;
	return false;
}

/* Records an event in each context that may use the block, and with `asks` queries. No lock is
 * held, the block is busy. */
static enum mt_fence_status record(struct mt_context *context, struct mt_block *block,
				   struct mt_event **own, bool asks)
{
	enum mt_fence_status status = MT_FENCE_LOST;
	bool was_pushed, is_recorded = false;
	int result;

	mt_assert(block->is_busy && !block->events);
	if (!mt_capture_gate_enter())
		return MT_FENCE_LOST;
	was_pushed = mt_context_push(context, &result);
	if (mt_unlikely(was_pushed))
		was_pushed = keep_push(context, &result);
	/* Mixed: since this free began, events no longer see all work. */
	if (result == MT_CU_SUCCESS && !mt_flag(&mt_pool.is_mixed)) {
		mt_context_add_primary(mt_context_ordinal(context));
		is_recorded = record_in(context, *own, &block->events);
		*own = NULL;
	}
	/* After its own, which is queried first: an error of the current context, which this is
	 * then, does not count against another. */
	MT_EACH_CONTEXT(other)
	{
		if (is_recorded && other != context && mt_context_may_use(other, context) &&
		    mt_context_handle(other))
			is_recorded = record_other(other, &block->events->next);
	}
	mt_assert(!is_recorded || block->events->context == context);
	if (is_recorded)
		status = asks ? query(context, block, own) : MT_FENCE_NOT_YET;
	mt_context_pop(was_pushed);
	mt_capture_gate_leave();
	return status;
}

/* Waits for the block's own event, in relaxed capture mode: a capture may begin meanwhile. */
static MT_COLD enum mt_fence_status wait_for_own(struct mt_context *context, struct mt_block *block,
						 struct mt_event **out_own)
{
	int mode = mt_driver_relax(mt_pool_driver()), result;
	bool was_pushed = mt_context_push(context, &result);

	if (result == MT_CU_SUCCESS)
		result = mode == MT_DRIVER_NOT_RELAXED
				 ? MT_CU_NOT_PERMITTED
				 : mt_pool_driver()->cuEventSynchronize(block->events->event);
	mt_context_pop(was_pushed);
	mt_driver_restore(mt_pool_driver(), mode);
	mt_context_note_result(context, result);
	return result == MT_CU_SUCCESS ? ask(context, block, out_own) : MT_FENCE_LOST;
}

enum mt_fence_status mt_fence_free(struct mt_context *context, struct mt_block *block, bool waits)
{
	struct mt_event *own = mt_context_take_event(context);
	/* An older pending block is asked about first: on a busy device it is as far as this. */
	bool asks = waits || !context->pending_line.first;
	enum mt_fence_status status;
	int cancel;

	mt_fence_add(context, block);
	begin(context, block);
	cancel = mt_driver_forbid_cancel();
	status = record(context, block, &own, asks);
	if (mt_unlikely(status == MT_FENCE_NOT_YET && waits) &&
	    !mt_fence_is_own_done(context, block))
		status = wait_for_own(context, block, &own);
	status = end(context, block, own, status);
	mt_driver_allow_cancel(cancel);
	return status;
}

/* ---- questions ---- */

/* Asks the driver about a pending block that is not busy. Returns DONE, NOT_YET or LOST. The lock
 * is held on entry and on return, but not in between. */
static enum mt_fence_status check(struct mt_context *context, struct mt_block *block)
{
	struct mt_event *own = NULL;
	enum mt_fence_status status;
	int cancel;

	begin(context, block);
	cancel = mt_driver_forbid_cancel();
	status = ask(context, block, &own);
	status = end(context, block, own, status);
	mt_driver_allow_cancel(cancel);
	return status;
}

/* The lock is given up at each query: the walk begins again after a block that has left. */
bool mt_fence_poll(struct mt_context *context, unsigned limit)
{
	struct mt_block *block = context->pending_line.first;
	bool has_idle = false;

	for (; block && limit > 0; limit--) {
		if (block->is_busy) {
			block = block->line_next;
		} else if (check(context, block) == MT_FENCE_DONE) {
			has_idle = true;
			block = context->pending_line.first;
		} else if (mt_fence_is_own_done(context, block)) {
			block = block->line_next;
		} else {
			break;
		}
	}
	return has_idle;
}

bool mt_fence_is_own_done(const struct mt_context *context, const struct mt_block *block)
{
	return !block->events || block->events->context != context;
}
