/* event.c -- events. Recording one notes what is queued at that moment; it is done when all of that
 * is. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

enum { EVENT_FLAGS = 1 | 2 | 4, DISABLE_TIMING = 2, WAIT_EXTERNAL = 1 };

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void fake_event_stamp(const struct fake_work *work)
{
	struct CUevent_st *event = work->event;

	if (event->object.id == work->event_id &&
	    (work->kind == WORK_RECORD || event->record_id == work->record_id))
		event->time_ns = now_ns();
}

int cuEventCreate(struct CUevent_st **event, unsigned int flags)
{
	struct CUctx_st *context;
	struct CUevent_st *made;
	struct fake_object object;
	const int result = fake_enter(FN_cuEventCreate, &context);

	if (result != OK)
		return result;
	if (event == NULL || (flags & ~(unsigned int)EVENT_FLAGS) != 0)
		return fake_leave(INVALID_VALUE);
	made = fake_object_new(FAKE_EVENT, sizeof(*made));
	if (made == NULL)
		return fake_leave(OUT_OF_MEMORY);
	object = made->object;
	memset(made, 0, sizeof(*made));
	made->object = object;
	made->context = context;
	made->flags = flags;
	made->next = context->events;
	if (made->next)
		made->next->previous = made;
	context->events = made;
	fake_ledger.events++;
	*event = made;
	return fake_leave(OK);
}

static void forget_capture(struct CUevent_st *event)
{
	free(event->nodes);
	event->nodes = NULL;
	event->node_count = 0;
	event->is_captured = false;
	event->capture = NULL;
}

static void event_end(struct CUevent_st *event)
{
	if (event->previous)
		event->previous->next = event->next;
	else
		event->context->events = event->next;
	if (event->next)
		event->next->previous = event->previous;
	forget_capture(event);
	fake_deps_clear(&event->deps);
	fake_ledger.events--;
	fake_object_free(FAKE_EVENT, event);
}

void fake_context_events_end(struct CUctx_st *context)
{
	while (context->events)
		event_end(context->events);
}

static int destroy(enum fake_fn fn, struct CUevent_st *event)
{
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_EVENT, event))
		return fake_leave(INVALID_HANDLE);
	event_end(event);
	return fake_leave(OK);
}

int cuEventDestroy(struct CUevent_st *event)
{
	return destroy(FN_cuEventDestroy, event);
}

int cuEventDestroy_v2(struct CUevent_st *event)
{
	return destroy(FN_cuEventDestroy_v2, event);
}

static void begin_record(struct CUevent_st *event)
{
	forget_capture(event);
	event->deps.count = 0;
	event->is_recorded = true;
	event->record_id = fake_next_id();
	event->time_ns = now_ns();
}

static int record_captured(struct CUevent_st *event, struct CUstream_st *stream, unsigned int flags)
{
	const struct fake_work work = {
		.kind = WORK_RECORD, .event = event, .event_id = event->object.id};

	if (stream->capture->is_invalid)
		return CAPTURE_INVALIDATED;
	if (flags & WAIT_EXTERNAL)
		return fake_submit(stream, &work);
	begin_record(event);
	event->is_captured = true;
	event->capture = stream->capture;
	event->capture_id = stream->capture->id;
	event->node_count = stream->tail_count;
	event->nodes = fake_alloc(sizeof(*event->nodes) * stream->tail_count);
	if (stream->tail_count > 0)
		memcpy(event->nodes, stream->tails, sizeof(*event->nodes) * stream->tail_count);
	return OK;
}

static int record(struct CUevent_st *event, struct CUstream_st *stream, unsigned int flags)
{
	struct fake_work work = {.kind = WORK_STAMP, .event = event, .event_id = event->object.id};
	int result = OK;

	if (stream->context->root != event->context->root)
		return INVALID_HANDLE;
	if (stream->capture)
		return record_captured(event, stream, flags);
	if (stream == stream->context->legacy && fake_capture_blocks_legacy(stream->context)) {
		fake_capture_spoil_context(stream->context);
		return CAPTURE_IMPLICIT;
	}
	begin_record(event);
	work.record_id = event->record_id;
	/* The legacy stream stands for the blocking ones as well, so there the marker is needed
	 * also without a time. */
	if ((event->flags & DISABLE_TIMING) == 0 || stream == stream->context->legacy)
		result = fake_submit(stream, &work);
	if (result == OK)
		fake_deps_add(&event->deps, stream, stream->submitted);
	return result;
}

static int record_on(enum fake_fn fn, struct CUevent_st *event, struct CUstream_st *handle,
		     unsigned int flags)
{
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_EVENT, event))
		return fake_leave(INVALID_HANDLE);
	result = fake_stream_of(context, handle, fn, &stream);
	return fake_leave(result == OK ? record(event, stream, flags) : result);
}

static int on_cuEventRecord(enum fake_fn fn, struct CUevent_st *event, struct CUstream_st *stream)
{
	return record_on(fn, event, stream, 0);
}
FAKE_TWINS(cuEventRecord, _ptsz, (struct CUevent_st * event, struct CUstream_st *stream), event,
	   stream)

static int on_cuEventRecordWithFlags(enum fake_fn fn, struct CUevent_st *event,
				     struct CUstream_st *stream, unsigned int flags)
{
	return record_on(fn, event, stream, flags);
}
FAKE_TWINS(cuEventRecordWithFlags, _ptsz,
	   (struct CUevent_st * event, struct CUstream_st *stream, unsigned int flags), event,
	   stream, flags)

/* What was recorded in a capture has not happened: asking spoils the capture. */
static int check_event(struct CUevent_st *event)
{
	if (!fake_object_is(FAKE_EVENT, event))
		return INVALID_HANDLE;
	if (!event->is_captured)
		return event->context->root->sticky;
	if (event->capture)
		fake_capture_spoil(event->capture);
	return CAPTURED_EVENT;
}

int cuEventQuery(struct CUevent_st *event)
{
	int result = fake_enter(FN_cuEventQuery, NULL);

	if (result != OK)
		return result;
	result = check_event(event);
	if (result == OK && !fake_deps_done(&event->deps))
		result = NOT_READY;
	return fake_leave(result);
}

int cuEventSynchronize(struct CUevent_st *event)
{
	struct fake_deps deps = {0};
	struct CUctx_st *root;
	int result = fake_enter(FN_cuEventSynchronize, NULL);

	if (result != OK)
		return result;
	result = check_event(event);
	if (result != OK)
		return fake_leave(result);
	root = event->context->root;
	fake_deps_add_all(&deps, &event->deps);
	fake_wait(&deps);
	fake_pools_settle(root->device);
	return fake_leave(fake_context_check(root) == OK ? root->sticky : CONTEXT_IS_DESTROYED);
}

static int elapsed(enum fake_fn fn, float *ms, struct CUevent_st *begin, struct CUevent_st *end)
{
	int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (ms == NULL)
		return fake_leave(INVALID_VALUE);
	if (!fake_object_is(FAKE_EVENT, begin) || !fake_object_is(FAKE_EVENT, end) ||
	    !begin->is_recorded || !end->is_recorded || (begin->flags & DISABLE_TIMING) ||
	    (end->flags & DISABLE_TIMING))
		return fake_leave(INVALID_HANDLE);
	result = check_event(begin);
	if (result == OK)
		result = check_event(end);
	if (result != OK)
		return fake_leave(result);
	if (!fake_deps_done(&begin->deps) || !fake_deps_done(&end->deps))
		return fake_leave(NOT_READY);
	*ms = (float)((double)(int64_t)(end->time_ns - begin->time_ns) / 1e6);
	return fake_leave(OK);
}

int cuEventElapsedTime(float *ms, struct CUevent_st *begin, struct CUevent_st *end)
{
	return elapsed(FN_cuEventElapsedTime, ms, begin, end);
}

int cuEventElapsedTime_v2(float *ms, struct CUevent_st *begin, struct CUevent_st *end)
{
	return elapsed(FN_cuEventElapsedTime_v2, ms, begin, end);
}

/* ---- events of whole contexts ---- */

int fake_event_record_context(struct CUctx_st *context, struct CUevent_st *event)
{
	int result = fake_context_check(context);

	if (result == OK && (!fake_object_is(FAKE_EVENT, event) || event->context != context))
		result = INVALID_HANDLE;
	if (result == OK && fake_capture_spoil_context(context))
		result = CAPTURE_UNSUPPORTED;
	if (result == OK)
		result = context->root->sticky;
	if (result != OK)
		return result;
	begin_record(event);
	fake_context_event_deps(context, &event->deps);
	return OK;
}

int cuCtxRecordEvent(struct CUctx_st *context, struct CUevent_st *event)
{
	const int result = fake_enter(FN_cuCtxRecordEvent, NULL);

	return result != OK ? result : fake_leave(fake_event_record_context(context, event));
}

int cuCtxWaitEvent(struct CUctx_st *context, struct CUevent_st *event)
{
	int result = fake_enter(FN_cuCtxWaitEvent, NULL);

	if (result != OK)
		return result;
	result = fake_context_check(context);
	if (result == OK && !fake_object_is(FAKE_EVENT, event))
		result = INVALID_HANDLE;
	if (result != OK)
		return fake_leave(result);
	if (event->is_captured && event->capture)
		fake_capture_spoil(event->capture);
	if (event->is_captured || fake_capture_spoil_context(context))
		return fake_leave(CAPTURE_UNSUPPORTED);
	fake_deps_done(&context->barrier);
	fake_deps_add_all(&context->barrier, &event->deps);
	return fake_leave(context->root->sticky);
}

static int on_cuStreamWaitEvent(enum fake_fn fn, struct CUstream_st *handle,
				struct CUevent_st *event, unsigned int flags)
{
	const struct fake_work work = {.kind = WORK_NOTHING};
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	result = fake_stream_of(context, handle, fn, &stream);
	if (result == OK && !fake_object_is(FAKE_EVENT, event))
		result = INVALID_HANDLE;
	if (result == OK && flags > 1)
		result = INVALID_VALUE;
	if (result != OK)
		return fake_leave(result);
	if (event->is_captured)
		return fake_leave(fake_capture_join(stream, event));
	if (stream->capture) {
		/* Work outside of the capture cannot be waited for from within. */
		result = stream->capture->is_invalid ? CAPTURE_INVALIDATED : CAPTURE_ISOLATION;
		fake_capture_spoil(stream->capture);
		return fake_leave(result);
	}
	if (fake_deps_done(&event->deps))
		return fake_leave(OK);
	return fake_leave(fake_submit_after(stream, &work, &event->deps));
}
FAKE_TWINS(cuStreamWaitEvent, _ptsz,
	   (struct CUstream_st * stream, struct CUevent_st *event, unsigned int flags), stream,
	   event, flags)
