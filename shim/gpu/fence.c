#include "gpu/fence.h"

#include <string.h>

#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/capture.h"
#include "gpu/records.h"
#include "gpu/wait.h"

#define FREE_EVENTS 64 /* of a context, kept for reuse */

struct mt_event {
	/* in the free list, the pending list or its group; first: the slab's link */
	struct mt_event *next;
	struct CUevent_st *event;
	struct mt_context *context;
	uint32_t init; /* of the context: another value means that event and context are gone */
};

/* ---- the driver's events ---- */

static struct mt_slab event_slab = MT_SLAB(struct mt_event);

/* Lent events on their way back, and those for which a free list had no room. */
static struct mt_lock pending_lock = MT_LOCK(pending_events);
static _Atomic(struct mt_event *) pending;

/* The context's lock is held. */
static bool put_free(struct mt_context *context, struct mt_event *event)
{
	if (context->free_events_count >= FREE_EVENTS)
		return false;
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

static struct mt_event *take_event(struct mt_context *context)
{
	struct mt_event *event = context->free_events;

	if (event) {
		context->free_events = event->next;
		context->free_events_count--;
		event->next = NULL;
	}
	return event;
}

static void return_events(struct mt_context *context, struct mt_event *list)
{
	struct mt_event *next;

	for (; list; list = next) {
		next = list->next;
		if (list->context != context || !put_free(context, list))
			to_pending(list);
	}
}

/* Puts one event into the free list of its context, or destroys it. */
static void give_back_event(struct mt_event *event)
{
	struct mt_context *context = event->context;
	bool is_kept;

	if (!mt_context_hold_as(context, event->init)) {
		mt_slab_free(&event_slab, event);
		return;
	}
	mt_lock_lock(&context->lock);
	is_kept = put_free(context, event);
	mt_lock_unlock(&context->lock);
	if (!is_kept) {
		(void)mt_pool_driver()->cuEventDestroy_v2(event->event);
		mt_slab_free(&event_slab, event);
	}
	mt_context_drop(context);
}

static void return_pending_events(void)
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
		give_back_event(list);
	}
}

static MT_COLD enum mt_fence_status create(struct mt_context *context, struct mt_event **out)
{
	struct mt_event *event = mt_slab_alloc(&event_slab);
	bool was_pushed;
	int result;

	if (!event)
		return MT_FENCE_LOST;
	was_pushed = mt_context_push(context, &result);
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
	event->init = atomic_load_explicit(&context->init, memory_order_relaxed);
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

static enum mt_fence_status record_other(struct mt_context *other, struct mt_event **list)
{
	enum mt_fence_status status;
	struct mt_event *event;

	mt_lock_lock(&other->lock);
	if (!atomic_load_explicit(&other->handle, memory_order_relaxed) ||
	    mt_flag(&other->is_dead)) {
		mt_lock_unlock(&other->lock);
		return MT_FENCE_DONE;
	}
	if (mt_flag(&other->is_broken)) {
		/* It may still run work and cannot be fenced. */
		mt_lock_unlock(&other->lock);
		return MT_FENCE_LOST;
	}
	other->users++;
	event = take_event(other);
	mt_lock_unlock(&other->lock);
	status = record_one(other, event, list);
	mt_context_drop(other);
	return status == MT_FENCE_LOST && mt_flag(&other->is_dead) ? MT_FENCE_DONE : status;
}

static enum mt_fence_status record_events(struct mt_context *context, struct mt_event *own,
					  struct mt_event **list)
{
	enum mt_fence_status status;

	return_pending_events();
	mt_context_add_primary(mt_context_ordinal(context));
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

	if (!mt_context_hold_as(other, event->init)) {
		mt_slab_free(&event_slab, event);
		return MT_FENCE_DONE;
	}
	if (!mt_flag(&other->is_dead))
		status = status_of(other, mt_pool_driver()->cuEventQuery(event->event));
	if (status == MT_FENCE_LOST && mt_flag(&other->is_dead))
		status = MT_FENCE_DONE;
	if (status == MT_FENCE_DONE)
		to_pending(event);
	mt_context_drop(other);
	return status;
}

static enum mt_fence_status query_events(struct mt_context *context, struct mt_event **list)
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

/* At the end of the context: its own events died with it, and those of others go back. The lock is
 * held. */
static void forget_events(struct mt_context *context, struct mt_event *list)
{
	struct mt_event *next;

	for (; list; list = next) {
		next = list->next;
		if (list->context == context)
			mt_slab_free(&event_slab, list);
		else
			to_pending(list);
	}
}

/* ---- groups ---- */

static struct mt_slab group_slab = MT_SLAB(struct mt_group);

static struct mt_group *new_group(struct mt_context *context, uint64_t now_ns)
{
	struct mt_group *group = context->spare_groups;

	if (group)
		context->spare_groups = group->next;
	else
		group = mt_slab_alloc(&group_slab);
	if (group)
		*group = (struct mt_group){.opened_ns = now_ns};
	return group;
}

static void spare_group(struct mt_context *context, struct mt_group *group)
{
	group->next = context->spare_groups;
	context->spare_groups = group;
}

static void append_group(struct mt_context *context, struct mt_group *group)
{
	group->next = NULL;
	group->prev = context->groups.last;
	if (group->prev)
		group->prev->next = group;
	else
		context->groups.first = group;
	context->groups.last = group;
}

static void remove_group(struct mt_context *context, struct mt_group *group)
{
	if (group->prev)
		group->prev->next = group->next;
	else
		context->groups.first = group->next;
	if (group->next)
		group->next->prev = group->prev;
	else
		context->groups.last = group->prev;
	if (group->is_lost)
		context->lost_groups--;
}

bool mt_fence_add(struct mt_context *context, struct mt_block *block, uint64_t now_ns)
{
	struct mt_group *group = context->open;

	if (!group) {
		group = context->open = new_group(context, now_ns);
		if (!group)
			return false;
	}
	block->state = MT_BLOCK_PENDING;
	block->group = group;
	mt_line_append(&group->blocks, block);
	group->bytes += block->bytes;
	if (++group->count == 3)
		group->third_ns = mt_os_now_ns();
	mt_bins_add_last(context->pending, block);
	mt_counter_add(&context->counters.pending, block->bytes);
	mt_context_note_cached(context, block, true);
	return true;
}

/* All of a group's blocks are ready. */
static void retire(struct mt_context *context, struct mt_group *group)
{
	struct mt_block *block, *next;

	for (block = group->blocks.first; block; block = next) {
		next = block->line_next;
		mt_bins_remove(context->pending, block);
		block->state = MT_BLOCK_IDLE;
		block->group = NULL;
		mt_bins_add_first(context->idle, block);
		mt_line_append(&context->idle_line, block);
		mt_counter_add(&context->counters.pending, -block->bytes);
		mt_counter_add(&context->counters.idle, block->bytes);
	}
	remove_group(context, group);
	spare_group(context, group);
}

void mt_fence_remove(struct mt_context *context, struct mt_block *block)
{
	struct mt_group *group = block->group;

	mt_bins_remove(context->pending, block);
	mt_line_remove(&group->blocks, block);
	mt_counter_add(&context->counters.pending, -block->bytes);
	mt_context_note_cached(context, block, false);
	block->group = NULL;
	group->bytes -= block->bytes;
	group->count--;
	/* A busy group without blocks is retired by the thread it is busy with; one without events
	 * here and now. */
	if (group->count > 0 || group->is_busy)
		return;
	if (group == context->open) {
		context->open = NULL;
	} else {
		return_events(context, group->events);
		remove_group(context, group);
	}
	spare_group(context, group);
}

struct mt_group *mt_fence_oldest(struct mt_context *context)
{
	return context->groups.first ? context->groups.first : context->open;
}

struct mt_group *mt_fence_oldest_completable(struct mt_context *context)
{
	struct mt_group *group = context->groups.first;

	while (group && group->is_lost)
		group = group->next;
	return group ? group : context->open;
}

/* With no lock held, the group busy and the gate entered. */
static enum mt_fence_status query(struct mt_context *context, struct mt_group *group,
				  struct mt_event *own, bool only_record)
{
	enum mt_fence_status status = MT_FENCE_DONE;
	int result;
	/* The thread may have no current context, where the driver returns an error, or a broken
	 * one, whose error it would return. */
	bool was_pushed = mt_context_push(context, &result);

	if (!mt_group_is_recorded(group)) {
		status = record_events(context, own, &group->events);
		atomic_store_explicit(&group->is_recorded, status == MT_FENCE_DONE,
				      memory_order_relaxed);
	}
	if (status == MT_FENCE_DONE)
		status = only_record ? MT_FENCE_NOT_YET : query_events(context, &group->events);
	mt_context_pop(was_pushed);
	return status;
}

/* Events that were recorded before a capture began may be queried in relaxed mode. */
static MT_COLD enum mt_fence_status query_in_capture(struct mt_context *context,
						     struct mt_group *group, bool only_record)
{
	enum mt_fence_status status;
	int mode = mt_driver_relax(mt_pool_driver());

	if (mode == MT_DRIVER_NOT_RELAXED)
		return MT_FENCE_CAPTURE;
	status = query(context, group, NULL, only_record);
	mt_driver_restore(mt_pool_driver(), mode);
	return status;
}

/* With the lock held again: applies the status to the group, which may be gone afterwards. */
static enum mt_fence_status apply_status(struct mt_context *context, struct mt_group *group,
					 enum mt_fence_status status)
{
	if (status == MT_FENCE_DONE || group->count == 0) {
		return_events(context, group->events);
		retire(context, group);
		return MT_FENCE_DONE;
	}
	group->lacks_events = status == MT_FENCE_NOT_YET && !mt_group_is_recorded(group);
	if (group->lacks_events) {
		return_events(context, group->events);
		group->events = NULL;
	}
	if (status == MT_FENCE_LOST) {
		group->is_lost = true;
		context->lost_groups++;
	}
	return status;
}

static enum mt_fence_status check(struct mt_context *context, struct mt_group *group,
				  bool only_record)
{
	enum mt_fence_status status = MT_FENCE_CAPTURE;
	struct mt_event *own = NULL;
	int cancel;

	if (group->is_lost)
		return MT_FENCE_LOST;
	if (group == context->open) {
		context->open = NULL;
		append_group(context, group);
	}
	group->is_busy = true;
	context->users++;
	if (!mt_group_is_recorded(group))
		own = take_event(context);
	mt_lock_unlock(&context->lock);
	cancel = mt_wait_uncancelled();
	if (mt_capture_gate_enter()) {
		status = query(context, group, own, only_record);
		own = NULL;
		mt_capture_gate_leave();
	} else if (mt_group_is_recorded(group) && !mt_capture_is_ending()) {
		status = query_in_capture(context, group, only_record);
	}
	mt_lock_lock(&context->lock);
	mt_wait_cancellable(cancel);
	context->users--;
	group->is_busy = false;
	if (own)
		return_events(context, own);
	return apply_status(context, group, status);
}

enum mt_fence_status mt_fence_check(struct mt_context *context, struct mt_group *group)
{
	return check(context, group, false);
}

bool mt_fence_close(struct mt_context *context)
{
	struct mt_group *group = context->open;

	/* Not yet: the group is still there. */
	return !group || check(context, group, true) != MT_FENCE_NOT_YET || !group->lacks_events;
}

void mt_fence_poll(struct mt_context *context, unsigned limit)
{
	bool may_record = !mt_capture_is_open();

	for (unsigned i = 0; i < limit; i++) {
		struct mt_group *group = context->groups.first;

		while (group && (group->is_lost || (!mt_group_is_recorded(group) && !may_record)))
			group = group->next;
		if (!group || group->is_busy)
			return;
		if (check(context, group, false) == MT_FENCE_DONE)
			continue;
		if (mt_group_is_recorded(group) || !may_record)
			return;
		may_record = false;
	}
}

/* Asks the driver about the own event of a group whose events are recorded, in relaxed capture
 * mode. With no lock held, the context in use and the group busy. */
static int ask_own_event(struct mt_context *context, const struct mt_group *group,
			 int (*ask)(struct CUevent_st *event))
{
	int cancel = mt_wait_uncancelled(), result;
	int mode = mt_driver_relax(mt_pool_driver());
	bool was_pushed = mt_context_push(context, &result);

	mt_assert(group->events->context == context);
	if (result == MT_CU_SUCCESS)
		result = ask && mode != MT_DRIVER_NOT_RELAXED ? ask(group->events->event)
							      : MT_CU_NOT_READY;
	mt_context_pop(was_pushed);
	mt_driver_restore(mt_pool_driver(), mode);
	mt_wait_cancellable(cancel);
	return result;
}

MT_COLD enum mt_fence_status mt_fence_wait(struct mt_context *context, struct mt_group *group)
{
	int result;

	mt_assert(!group->is_busy && mt_group_is_recorded(group));
	group->is_busy = true;
	context->users++; /* its end waits for the same work */
	mt_lock_unlock(&context->lock);
	result = ask_own_event(context, group, mt_pool_driver()->cuEventSynchronize);
	mt_context_note_result(context, result);
	mt_lock_lock(&context->lock);
	context->users--;
	group->is_busy = false;
	return check(context, group, false);
}

void mt_fence_poll_own(struct mt_context *context)
{
	struct mt_group *next;

	for (struct mt_group *group = context->groups.first; group; group = next) {
		next = group->next;
		if (group->is_lost || group->is_busy || !mt_group_is_recorded(group) ||
		    group->is_own_done)
			continue;
		if (atomic_load_explicit(&context->is_ending, memory_order_seq_cst))
			return;
		group->is_busy = true;
		context->users++;
		mt_lock_unlock(&context->lock);
		group->is_own_done = ask_own_event(context, group,
						   mt_pool_driver()->cuEventQuery) == MT_CU_SUCCESS;
		mt_lock_lock(&context->lock);
		context->users--;
		group->is_busy = false;
		next = group->next;
		if (group->count == 0)
			(void)apply_status(context, group, MT_FENCE_DONE);
	}
}

bool mt_fence_may_complete(const struct mt_context *context, uint64_t until_ns)
{
	/* A context that ends does so soon. */
	bool may_record = !mt_capture_is_open() || mt_capture_is_ending();

	for (const struct mt_group *group = context->groups.first; group; group = group->next)
		if (group->opened_ns <= until_ns && !group->is_lost && !group->lacks_events &&
		    (mt_group_is_recorded(group) || may_record))
			return true;
	return context->open && context->open->opened_ns <= until_ns && may_record;
}

void mt_fence_forget_context(struct mt_context *context)
{
	struct mt_group *next;

	if (context->open) {
		append_group(context, context->open);
		context->open = NULL;
	}
	for (struct mt_group *group = context->groups.first; group; group = next) {
		next = group->next;
		forget_events(context, group->events);
		mt_slab_free(&group_slab, group);
	}
	context->groups.first = context->groups.last = NULL;
	context->lost_groups = 0;
	for (struct mt_group *group = context->spare_groups; group; group = next) {
		next = group->next;
		mt_slab_free(&group_slab, group);
	}
	context->spare_groups = NULL;
	forget_events(context, context->free_events);
	context->free_events = NULL;
	context->free_events_count = 0;
}

MT_COLD void mt_fence_forget_all(void)
{
	mt_slab_forget(&group_slab);
	mt_slab_forget(&event_slab);
	mt_lock_reset(&pending_lock);
	atomic_store_explicit(&pending, NULL, memory_order_relaxed);
}
