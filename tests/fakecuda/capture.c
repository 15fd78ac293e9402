/* capture.c -- streams that capture: what they may, what others may not meanwhile, and how they
 * end. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { MODE_GLOBAL = 0, MODE_THREAD_LOCAL = 1, MODE_RELAXED = 2 };
enum { STATUS_NONE = 0, STATUS_ACTIVE = 1, STATUS_INVALIDATED = 2 };

struct fake_capture *fake_captures;

void fake_capture_spoil(struct fake_capture *capture)
{
	capture->is_invalid = true;
}

/* The rules of cuThreadExchangeStreamCaptureMode for a potentially unsafe call of this thread. */
bool fake_capture_forbids(bool invalidate)
{
	struct fake_capture *capture;
	bool is_own, forbidden = false;

	if (fake_thread.capture_mode == MODE_RELAXED)
		return false;
	for (capture = fake_captures; capture; capture = capture->next) {
		if (capture->is_invalid)
			continue;
		is_own = capture->thread == &fake_thread;
		if ((is_own && capture->mode != MODE_RELAXED) ||
		    (!is_own && capture->mode == MODE_GLOBAL &&
		     fake_thread.capture_mode == MODE_GLOBAL)) {
			forbidden = true;
			if (invalidate)
				fake_capture_spoil(capture);
		}
	}
	return forbidden;
}

static bool is_within(const struct CUctx_st *part, const struct CUctx_st *whole)
{
	return part == whole || (!whole->is_green && part->is_green && part->root == whole);
}

/* Any stream that takes part in a capture counts, not only where it began. */
static bool find(struct CUctx_st *context, bool blocking_only, bool spoil)
{
	struct CUctx_st *part;
	struct CUstream_st *stream;
	bool found = false;

	if (fake_captures == NULL)
		return false;
	for (part = fake_contexts; part; part = part->next) {
		if (!is_within(part, context))
			continue;
		for (stream = part->streams; stream; stream = stream->next)
			if (stream->capture && !stream->capture->is_invalid &&
			    (!blocking_only || (stream->flags & 1) == 0)) {
				found = true;
				if (spoil)
					fake_capture_spoil(stream->capture);
			}
	}
	return found;
}

bool fake_capture_spoil_context(struct CUctx_st *context)
{
	return find(context, false, true);
}

bool fake_capture_blocks_legacy(struct CUctx_st *context)
{
	return find(context, true, false);
}

static void set_tails(struct CUstream_st *stream, struct CUgraphNode_st *const *nodes,
		      unsigned int count)
{
	struct CUgraphNode_st **copy = fake_alloc(sizeof(*copy) * count);

	if (count > 0)
		memcpy(copy, nodes, sizeof(*copy) * count);
	free(stream->tails);
	stream->tails = copy;
	stream->tail_count = count;
}

static void leave_capture(struct CUstream_st *stream)
{
	free(stream->tails);
	stream->tails = NULL;
	stream->tail_count = 0;
	stream->capture = NULL;
}

int fake_capture_work(struct CUstream_st *stream, const struct fake_work *work)
{
	struct CUgraphNode_st *node;

	if (stream->capture->is_invalid)
		return CAPTURE_INVALIDATED;
	if (work->kind == WORK_CALLBACK) {
		fake_capture_spoil(stream->capture);
		return CAPTURE_UNSUPPORTED;
	}
	node = fake_graph_add(stream->capture->graph, work, stream->tails, stream->tail_count);
	set_tails(stream, &node, 1);
	return OK;
}

/* A stream that waits for an event of a capture becomes part of it. */
int fake_capture_join(struct CUstream_st *stream, struct CUevent_st *event)
{
	struct CUgraphNode_st **merged;
	unsigned int i, j, count;

	if (event->capture == NULL || stream == stream->context->legacy) {
		if (event->capture)
			fake_capture_spoil(event->capture);
		return event->capture ? CAPTURE_IMPLICIT : CAPTURED_EVENT;
	}
	if (event->capture->is_invalid)
		return CAPTURE_INVALIDATED;
	if (stream->capture != NULL && stream->capture != event->capture) {
		fake_capture_spoil(stream->capture);
		fake_capture_spoil(event->capture);
		return CAPTURE_MERGE;
	}
	stream->capture = event->capture;
	merged = fake_alloc(sizeof(*merged) * (stream->tail_count + event->node_count));
	count = stream->tail_count;
	if (count > 0)
		memcpy(merged, stream->tails, sizeof(*merged) * count);
	for (i = 0; i < event->node_count; i++) {
		for (j = 0; j < count && merged[j] != event->nodes[i]; j++)
			;
		if (j == count)
			merged[count++] = event->nodes[i];
	}
	free(stream->tails);
	stream->tails = merged;
	stream->tail_count = count;
	return OK;
}

/* Out of the list, out of every stream and event; the graph is handed back. */
static struct CUgraph_st *close_capture(struct fake_capture *capture)
{
	struct CUgraph_st *graph = capture->graph;
	struct fake_capture **link;
	struct CUctx_st *context;
	struct CUstream_st *stream;
	struct CUevent_st *event;

	for (link = &fake_captures; *link != capture; link = &(*link)->next)
		;
	*link = capture->next;
	for (context = fake_contexts; context; context = context->next) {
		for (stream = context->streams; stream; stream = stream->next)
			if (stream->capture == capture)
				leave_capture(stream);
		for (event = context->events; event; event = event->next)
			if (event->capture == capture)
				event->capture = NULL;
	}
	free(capture);
	return graph;
}

static void drop_capture(struct fake_capture *capture)
{
	const bool is_ours = !capture->into_existing;
	struct CUgraph_st *graph = close_capture(capture);

	if (is_ours)
		fake_graph_drop(graph);
}

void fake_capture_stream_ends(struct CUstream_st *stream)
{
	if (stream->capture == NULL)
		return;
	if (stream->capture->origin == stream) {
		drop_capture(stream->capture);
		return;
	}
	fake_capture_spoil(stream->capture);
	leave_capture(stream);
}

static int begin(struct CUstream_st *stream, int mode, struct CUgraph_st *into)
{
	struct fake_capture *capture;

	if (mode < MODE_GLOBAL || mode > MODE_RELAXED)
		return INVALID_VALUE;
	if (stream == stream->context->legacy)
		return CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return ILLEGAL_STATE;
	capture = fake_alloc(sizeof(*capture));
	capture->id = fake_next_id();
	capture->mode = mode;
	capture->thread = &fake_thread;
	capture->origin = stream;
	capture->graph = into ? into : fake_graph_make();
	capture->into_existing = into != NULL;
	capture->next = fake_captures;
	fake_captures = capture;
	stream->capture = capture;
	return OK;
}

static int begin_on(enum fake_fn fn, struct CUstream_st *handle, int mode)
{
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	result = fake_stream_of(context, handle, fn, &stream);
	return fake_leave(result == OK ? begin(stream, mode, NULL) : result);
}

static int on_cuStreamBeginCapture(enum fake_fn fn, struct CUstream_st *stream)
{
	return begin_on(fn, stream, MODE_GLOBAL);
}
FAKE_TWINS(cuStreamBeginCapture, _ptsz, (struct CUstream_st * stream), stream)

static int on_cuStreamBeginCapture_v2(enum fake_fn fn, struct CUstream_st *stream, int mode)
{
	return begin_on(fn, stream, mode);
}
FAKE_TWINS(cuStreamBeginCapture_v2, _ptsz, (struct CUstream_st * stream, int mode), stream, mode)

static int on_cuStreamBeginCaptureToGraph(enum fake_fn fn, struct CUstream_st *handle,
					  struct CUgraph_st *graph,
					  struct CUgraphNode_st *const *deps, const void *edges,
					  size_t count, int mode)
{
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result = fake_enter(fn, &context);

	(void)edges;
	if (result != OK)
		return result;
	result = fake_stream_of(context, handle, fn, &stream);
	if (result == OK && !fake_object_is(FAKE_GRAPH_OBJECT, graph))
		result = INVALID_VALUE;
	if (result == OK)
		result = begin(stream, mode, graph);
	if (result == OK && deps != NULL)
		set_tails(stream, deps, (unsigned int)count);
	return fake_leave(result);
}
FAKE_TWINS(cuStreamBeginCaptureToGraph, _ptsz,
	   (struct CUstream_st * stream, struct CUgraph_st *graph,
	    struct CUgraphNode_st *const *deps, const void *edges, size_t count, int mode),
	   stream, graph, deps, edges, count, mode)

static void mark(struct CUgraphNode_st *node, unsigned int with)
{
	unsigned int i;

	if (node->mark == with)
		return;
	node->mark = with;
	for (i = 0; i < node->dep_count; i++)
		mark(node->deps[i], with);
}

/* Everything captured must lead to where the capture began, or a forked stream was not joined. */
static bool is_joined(const struct fake_capture *capture)
{
	static unsigned int round;
	struct CUctx_st *context;
	struct CUstream_st *stream;
	unsigned int i;

	round++;
	for (i = 0; i < capture->origin->tail_count; i++)
		mark(capture->origin->tails[i], round);
	for (context = fake_contexts; context; context = context->next)
		for (stream = context->streams; stream; stream = stream->next)
			for (i = 0; stream->capture == capture && i < stream->tail_count; i++)
				if (stream->tails[i]->mark != round)
					return false;
	return true;
}

static int end(struct CUstream_st *stream, struct CUgraph_st **graph)
{
	struct fake_capture *capture = stream->capture;
	int result = OK;

	*graph = NULL;
	if (capture == NULL)
		return ILLEGAL_STATE;
	if (capture->mode != MODE_RELAXED && capture->thread != &fake_thread)
		return CAPTURE_WRONG_THREAD;
	if (capture->origin != stream) {
		fake_capture_spoil(capture);
		return CAPTURE_UNMATCHED;
	}
	if (capture->is_invalid)
		result = CAPTURE_INVALIDATED;
	else if (!is_joined(capture))
		result = CAPTURE_UNJOINED;
	if (result == OK)
		*graph = close_capture(capture);
	else
		drop_capture(capture);
	return result;
}

static int on_cuStreamEndCapture(enum fake_fn fn, struct CUstream_st *handle,
				 struct CUgraph_st **graph)
{
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	result = graph ? fake_stream_of(context, handle, fn, &stream) : INVALID_VALUE;
	return fake_leave(result == OK ? end(stream, graph) : result);
}
FAKE_TWINS(cuStreamEndCapture, _ptsz, (struct CUstream_st * stream, struct CUgraph_st **graph),
	   stream, graph)

struct info {
	int *status;
	uint64_t *id;
	struct CUgraph_st **graph;
	struct CUgraphNode_st *const **deps;
	const void **edges;
	size_t *count;
};

static void tell(const struct CUstream_st *stream, const struct info *info)
{
	if (info->id != NULL)
		*info->id = stream->capture->id;
	if (info->graph != NULL)
		*info->graph = stream->capture->graph;
	if (info->deps != NULL)
		*info->deps = stream->tails;
	if (info->edges != NULL)
		*info->edges = NULL;
	if (info->count != NULL)
		*info->count = stream->tail_count;
}

static int status_of(enum fake_fn fn, struct CUstream_st *handle, const struct info *info)
{
	int *status = info->status;
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	result = status ? fake_stream_of(context, handle, fn, &stream) : INVALID_VALUE;
	if (result != OK)
		return fake_leave(result);
	if (stream == context->legacy && fake_capture_blocks_legacy(context))
		return fake_leave(CAPTURE_IMPLICIT);
	*status = STATUS_NONE;
	if (stream->capture)
		*status = stream->capture->is_invalid ? STATUS_INVALIDATED : STATUS_ACTIVE;
	if (*status == STATUS_ACTIVE)
		tell(stream, info);
	return fake_leave(OK);
}

static int on_cuStreamIsCapturing(enum fake_fn fn, struct CUstream_st *stream, int *status)
{
	return status_of(fn, stream, &(struct info){.status = status});
}
FAKE_TWINS(cuStreamIsCapturing, _ptsz, (struct CUstream_st * stream, int *status), stream, status)

static int on_cuStreamGetCaptureInfo(enum fake_fn fn, struct CUstream_st *stream, int *status,
				     uint64_t *id)
{
	return status_of(fn, stream, &(struct info){.status = status, .id = id});
}
FAKE_TWINS(cuStreamGetCaptureInfo, _ptsz, (struct CUstream_st * stream, int *status, uint64_t *id),
	   stream, status, id)

static int on_cuStreamGetCaptureInfo_v2(enum fake_fn fn, struct CUstream_st *stream, int *status,
					uint64_t *id, struct CUgraph_st **graph,
					struct CUgraphNode_st *const **deps, size_t *count)
{
	return status_of(
		fn, stream,
		&(struct info){
			.status = status, .id = id, .graph = graph, .deps = deps, .count = count});
}
FAKE_TWINS(cuStreamGetCaptureInfo_v2, _ptsz,
	   (struct CUstream_st * stream, int *status, uint64_t *id, struct CUgraph_st **graph,
	    struct CUgraphNode_st *const **deps, size_t *count),
	   stream, status, id, graph, deps, count)

static int on_cuStreamGetCaptureInfo_v3(enum fake_fn fn, struct CUstream_st *stream,
					const struct info *info)
{
	return status_of(fn, stream, info);
}
FAKE_TWINS(cuStreamGetCaptureInfo_v3, _ptsz,
	   (struct CUstream_st * stream, int *status, uint64_t *id, struct CUgraph_st **graph,
	    struct CUgraphNode_st *const **deps, const void **edges, size_t *count),
	   stream, &(struct info){status, id, graph, deps, edges, count})

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	const int result = fake_enter(FN_cuThreadExchangeStreamCaptureMode, NULL);
	int before;

	if (result != OK)
		return result;
	if (mode == NULL || *mode < MODE_GLOBAL || *mode > MODE_RELAXED)
		return fake_leave(INVALID_VALUE);
	before = fake_thread.capture_mode;
	fake_thread.capture_mode = *mode;
	*mode = before;
	return fake_leave(OK);
}
