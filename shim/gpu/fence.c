#include "gpu/fence.h"

#include <string.h>

#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/capture.h"
#include "gpu/device_memory.h"
#include "gpu/event.h"
#include "gpu/records.h"
#include "gpu/wait.h"

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

bool mt_fence_is_due(struct mt_context *context)
{
	const struct mt_group *group = context->open;

	if (!group)
		return false;
	if (group->count >= MT_GROUP_BLOCKS || mt_device_memory_is_scarce(context) ||
	    group->bytes > mt_counter(&mt_context_device(context)->total_bytes) / MT_GROUP_SHARE)
		return true;
	return group->count >= 4 && mt_os_now_ns() - group->third_ns > MT_GROUP_NS;
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
		mt_events_return(context, group->events);
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
	bool was_pushed = mt_context_push(context, true, &result);

	if (!mt_group_is_recorded(group)) {
		status = mt_events_record(context, own, &group->events);
		atomic_store_explicit(&group->is_recorded, status == MT_FENCE_DONE,
				      memory_order_relaxed);
	}
	if (status == MT_FENCE_DONE)
		status = only_record ? MT_FENCE_NOT_YET : mt_events_query(context, &group->events);
	mt_context_pop(was_pushed);
	return status;
}

/* Events that were recorded before a capture began may be queried in relaxed mode. */
static MT_COLD enum mt_fence_status query_in_capture(struct mt_context *context,
						     struct mt_group *group, bool only_record)
{
	enum mt_fence_status status;
	int mode = mt_capture_relax(mt_pool_driver());

	if (mode == MT_CAPTURE_NOT_RELAXED)
		return MT_FENCE_CAPTURE;
	status = query(context, group, NULL, only_record);
	mt_capture_restore(mt_pool_driver(), mode);
	return status;
}

/* With the lock held again: applies the status to the group, which may be gone afterwards. */
static enum mt_fence_status apply_status(struct mt_context *context, struct mt_group *group,
					 enum mt_fence_status status)
{
	if (status == MT_FENCE_DONE || group->count == 0) {
		mt_events_return(context, group->events);
		retire(context, group);
		return MT_FENCE_DONE;
	}
	group->lacks_events = status == MT_FENCE_NOT_YET && !mt_group_is_recorded(group);
	if (group->lacks_events) {
		mt_events_return(context, group->events);
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
		own = mt_events_take(context);
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
		mt_events_return(context, own);
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

static bool is_own_event_done(struct mt_context *context, const struct mt_event *event)
{
	int result, mode = mt_capture_relax(mt_pool_driver());
	bool was_pushed;

	if (mode == MT_CAPTURE_NOT_RELAXED)
		return false;
	was_pushed = mt_context_push(context, true, &result);
	while (event && event->context != context)
		event = event->next;
	if (event && result == MT_CU_SUCCESS)
		result = mt_pool_driver()->cuEventQuery(event->event);
	mt_context_pop(was_pushed);
	mt_capture_restore(mt_pool_driver(), mode);
	return event && result == MT_CU_SUCCESS;
}

/* With no lock held, the context in use and the group busy. */
static void synchronize(struct mt_context *context, const struct mt_event *event)
{
	int cancel = mt_wait_uncancelled(), result;
	int mode = mt_capture_relax(mt_pool_driver());
	bool was_pushed = mt_context_push(context, true, &result);

	if (result == MT_CU_SUCCESS && mt_pool_driver()->cuEventSynchronize)
		result = mt_pool_driver()->cuEventSynchronize(event->event);
	mt_context_pop(was_pushed);
	mt_capture_restore(mt_pool_driver(), mode);
	mt_wait_cancellable(cancel);
	mt_context_note_result(context, result);
}

MT_COLD enum mt_fence_status mt_fence_wait(struct mt_context *context, struct mt_group *group)
{
	const struct mt_event *event = group->events;

	mt_assert(!group->is_busy && mt_group_is_recorded(group));
	while (event && event->context != context)
		event = event->next;
	if (event) {
		group->is_busy = true;
		context->users++; /* its end waits for the same work */
		mt_lock_unlock(&context->lock);
		synchronize(context, event);
		mt_lock_lock(&context->lock);
		context->users--;
		group->is_busy = false;
	}
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
		group->is_own_done = is_own_event_done(context, group->events);
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

struct mt_event *mt_fence_forget_context(struct mt_context *context)
{
	struct mt_group *next;

	if (context->open) {
		append_group(context, context->open);
		context->open = NULL;
	}
	for (struct mt_group *group = context->groups.first; group; group = next) {
		next = group->next;
		mt_events_forget_group(context, group->events);
		mt_slab_free(&group_slab, group);
	}
	context->groups.first = context->groups.last = NULL;
	context->lost_groups = 0;
	for (struct mt_group *group = context->spare_groups; group; group = next) {
		next = group->next;
		mt_slab_free(&group_slab, group);
	}
	context->spare_groups = NULL;
	return mt_events_forget_context(context);
}

MT_COLD void mt_fence_forget_all(void)
{
	mt_slab_forget(&group_slab);
	mt_events_forget_all();
}
