#include "gpu/event.h"

#include "sys/attr.h"
#include "gpu/records.h"

static struct mt_slab event_slab = MT_SLAB(struct mt_event);

/* Lent events on their way back, and those for which a free list had no room. */
static struct mt_lock pending_lock = MT_LOCK(pending_events);
static _Atomic(struct mt_event *) pending;

/* The context's lock is held. */
static bool put_free(struct mt_context *context, struct mt_event *event)
{
	if (context->free_events_count >= MT_FREE_EVENTS)
		return false;
	event->is_lent = false;
	event->next = context->free_events;
	context->free_events = event;
	context->free_events_count++;
	return true;
}

static void to_pending(struct mt_event *event)
{
	mt_lock_lock(&pending_lock);
	event->next = atomic_load_explicit(&pending, memory_order_relaxed);
	atomic_store_explicit(&pending, event, memory_order_relaxed);
	mt_lock_unlock(&pending_lock);
}

struct mt_event *mt_events_take(struct mt_context *context)
{
	struct mt_event *event = context->free_events;

	if (event) {
		context->free_events = event->next;
		context->free_events_count--;
		event->next = NULL;
	}
	return event;
}

void mt_events_return(struct mt_context *context, struct mt_event *list)
{
	struct mt_event *next;

	for (; list; list = next) {
		next = list->next;
		if (list->context == context && put_free(context, list))
			continue;
		if (list->context == context)
			list->is_lent = true;
		to_pending(list);
	}
}

static void unlink_all(struct mt_context *context, struct mt_event *event)
{
	if (event->all_prev)
		event->all_prev->all_next = event->all_next;
	else
		context->events = event->all_next;
	if (event->all_next)
		event->all_next->all_prev = event->all_prev;
}

/* Puts one event into the free list of its context, or destroys it. */
static void return_event(struct mt_event *event)
{
	struct mt_context *context = event->context;
	bool is_kept;

	if (!mt_context_hold(context, event->init)) {
		mt_slab_free(&event_slab, event);
		return;
	}
	mt_lock_lock(&context->lock);
	is_kept = put_free(context, event);
	if (!is_kept)
		unlink_all(context, event);
	mt_lock_unlock(&context->lock);
	if (!is_kept) {
		(void)mt_pool_driver()->cuEventDestroy_v2(event->event);
		mt_slab_free(&event_slab, event);
	}
	mt_context_drop(context);
}

void mt_events_return_pending(void)
{
	struct mt_event *list, *next;

	if (mt_likely(!atomic_load_explicit(&pending, memory_order_relaxed)))
		return;
	mt_lock_lock(&pending_lock);
	list = atomic_load_explicit(&pending, memory_order_relaxed);
	atomic_store_explicit(&pending, NULL, memory_order_relaxed);
	mt_lock_unlock(&pending_lock);
	for (; list; list = next) {
		next = list->next;
		return_event(list);
	}
}

static MT_COLD enum mt_fence_status create(struct mt_context *context, struct mt_event **out)
{
	struct mt_event *event = mt_slab_alloc(&event_slab);
	bool was_pushed;
	int result;

	if (!event)
		return MT_FENCE_LOST;
	was_pushed = mt_context_push(context, true, &result);
	if (result == MT_CU_SUCCESS)
		result = mt_pool_driver()->cuEventCreate(&event->event, MT_CU_EVENT_DISABLE_TIMING);
	mt_context_pop(was_pushed);
	if (result != MT_CU_SUCCESS) {
		mt_slab_free(&event_slab, event);
		mt_context_note_result(context, result);
		return result == MT_CU_OUT_OF_MEMORY || result == MT_CU_NOT_PERMITTED
			       ? MT_FENCE_NOT_YET
			       : MT_FENCE_LOST;
	}
	event->context = context;
	event->next = NULL;
	event->is_lent = false;
	event->init = atomic_load_explicit(&context->init, memory_order_relaxed);
	mt_lock_lock(&context->lock);
	event->all_prev = NULL;
	event->all_next = context->events;
	if (context->events)
		context->events->all_prev = event;
	context->events = event;
	mt_lock_unlock(&context->lock);
	*out = event;
	return MT_FENCE_DONE;
}

/* The context is held. */
static enum mt_fence_status record_one(struct mt_context *context, struct mt_event *event,
				       struct mt_event **list)
{
	enum mt_fence_status status;
	int result;

	if (!event && (status = create(context, &event)) != MT_FENCE_DONE)
		return status;
	event->next = *list;
	*list = event;
	result = mt_pool_driver()->cuCtxRecordEvent(
		atomic_load_explicit(&context->handle, memory_order_relaxed), event->event);
	if (result == MT_CU_SUCCESS)
		return MT_FENCE_DONE;
	if (result == MT_CU_OUT_OF_MEMORY || result == MT_CU_NOT_PERMITTED)
		return MT_FENCE_NOT_YET;
	mt_context_note_result(context, result == MT_CU_NOT_READY ? MT_CU_NOT_SUPPORTED : result);
	return MT_FENCE_LOST;
}

static bool is_dead(struct mt_context *context)
{
	return atomic_load_explicit(&context->is_dead, memory_order_relaxed);
}

static enum mt_fence_status record_other(struct mt_context *other, struct mt_event **list)
{
	struct mt_event *before = *list;
	enum mt_fence_status status;
	struct mt_event *event;

	mt_lock_lock(&other->lock);
	if (!atomic_load_explicit(&other->handle, memory_order_relaxed) || is_dead(other)) {
		mt_lock_unlock(&other->lock);
		return MT_FENCE_DONE;
	}
	if (atomic_load_explicit(&other->is_broken, memory_order_relaxed)) {
		/* It may still run work and cannot be fenced. */
		mt_lock_unlock(&other->lock);
		return MT_FENCE_LOST;
	}
	other->users++;
	event = mt_events_take(other);
	mt_lock_unlock(&other->lock);
	status = record_one(other, event, list);
	mt_lock_lock(&other->lock);
	if (*list != before)
		(*list)->is_lent = true;
	other->users--;
	mt_lock_unlock(&other->lock);
	return status == MT_FENCE_LOST && is_dead(other) ? MT_FENCE_DONE : status;
}

enum mt_fence_status mt_events_record(struct mt_context *context, struct mt_event *own,
				      struct mt_event **list)
{
	enum mt_fence_status status;

	mt_events_return_pending();
	mt_context_add_primary(atomic_load_explicit(&context->device, memory_order_relaxed));
	status = record_one(context, own, list);
	/* After its own, which is queried first: an error of the current context, which this is
	 * then, does not count against another. */
	MT_EACH_CONTEXT(other)
	{
		if (other != context && status == MT_FENCE_DONE &&
		    mt_context_may_use(other, context) &&
		    atomic_load_explicit(&other->handle, memory_order_relaxed))
			status = record_other(other, &(*list)->next);
	}
	return status;
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

/* Done: the event has left for its own context. */
static enum mt_fence_status query_other(struct mt_event *event)
{
	struct mt_context *other = event->context;
	enum mt_fence_status status = MT_FENCE_DONE;

	if (!mt_context_hold(other, event->init)) {
		mt_slab_free(&event_slab, event);
		return MT_FENCE_DONE;
	}
	if (!is_dead(other))
		status = status_of(other, mt_pool_driver()->cuEventQuery(event->event));
	if (status == MT_FENCE_LOST && is_dead(other))
		status = MT_FENCE_DONE;
	if (status == MT_FENCE_DONE)
		to_pending(event);
	mt_context_drop(other);
	return status;
}

enum mt_fence_status mt_events_query(struct mt_context *context, struct mt_event **list)
{
	struct mt_event **link = list;

	while (*link) {
		struct mt_event *event = *link, *next = event->next;
		/* Read now: an event of another context may be reused once it has been queried. */
		bool is_own = event->context == context;
		enum mt_fence_status status;

		if (is_own)
			status = status_of(context, mt_pool_driver()->cuEventQuery(event->event));
		else
			status = query_other(event);
		if (status != MT_FENCE_DONE)
			return status;
		if (is_own)
			link = &event->next;
		else
			*link = next;
	}
	return MT_FENCE_DONE;
}

void mt_events_forget_group(struct mt_context *context, struct mt_event *list)
{
	struct mt_event *next;

	for (; list; list = next) {
		next = list->next;
		if (list->context != context)
			to_pending(list);
	}
}

struct mt_event *mt_events_forget_context(struct mt_context *context)
{
	struct mt_event *list = NULL, *next;

	for (struct mt_event *event = context->events; event; event = next) {
		next = event->all_next;
		if (event->is_lent)
			continue;
		event->next = list;
		list = event;
	}
	context->events = NULL;
	context->free_events = NULL;
	context->free_events_count = 0;
	return list;
}

void mt_events_destroy(struct mt_event *list, bool destroys)
{
	struct mt_event *next;

	for (; list; list = next) {
		next = list->next;
		if (destroys)
			(void)mt_pool_driver()->cuEventDestroy_v2(list->event);
		mt_slab_free(&event_slab, list);
	}
}

MT_COLD void mt_events_forget_all(void)
{
	mt_lock_reset(&pending_lock);
	atomic_store_explicit(&pending, NULL, memory_order_relaxed);
	mt_slab_forget(&event_slab);
}
