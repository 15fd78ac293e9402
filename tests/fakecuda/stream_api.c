/* stream_api.c -- the calls on streams. */
#include "internal.h"

enum { NON_BLOCKING = 1 };

static int create(enum fake_fn fn, struct CUstream_st **out, unsigned int flags, int priority)
{
	struct CUctx_st *context;
	struct CUstream_st *stream;
	const int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (out == NULL || (flags & ~(unsigned int)NON_BLOCKING) != 0)
		return fake_leave(INVALID_VALUE);
	stream = fake_stream_make(context, flags, priority);
	if (stream == NULL)
		return fake_leave(OUT_OF_MEMORY);
	*out = stream;
	return fake_leave(OK);
}

int cuStreamCreate(struct CUstream_st **stream, unsigned int flags)
{
	return create(FN_cuStreamCreate, stream, flags, 0);
}

int cuStreamCreateWithPriority(struct CUstream_st **stream, unsigned int flags, int priority)
{
	return create(FN_cuStreamCreateWithPriority, stream, flags,
		      priority > 0    ? 0
		      : priority < -5 ? -5
				      : priority);
}

static int destroy(enum fake_fn fn, struct CUstream_st *stream)
{
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_STREAM, stream) || stream->is_default || stream->is_dying)
		return fake_leave(INVALID_HANDLE);
	fake_stream_end(stream);
	return fake_leave(OK);
}

int cuStreamDestroy(struct CUstream_st *stream)
{
	return destroy(FN_cuStreamDestroy, stream);
}

int cuStreamDestroy_v2(struct CUstream_st *stream)
{
	return destroy(FN_cuStreamDestroy_v2, stream);
}

/* Enters and finds the stream. */
static int enter(enum fake_fn fn, struct CUstream_st *handle, struct CUstream_st **stream)
{
	struct CUctx_st *context;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	result = fake_stream_of(context, handle, fn, stream);
	return result == OK ? OK : fake_leave(result);
}

/* What a capturing stream refuses in every mode; it spoils the capture. */
static int refuse_capturing(struct CUstream_st *stream)
{
	if (stream->capture) {
		fake_capture_spoil(stream->capture);
		return CAPTURE_UNSUPPORTED;
	}
	if (stream == stream->context->legacy && fake_capture_blocks_legacy(stream->context)) {
		fake_capture_spoil_context(stream->context);
		return CAPTURE_IMPLICIT;
	}
	return OK;
}

/* The legacy stream is done when the blocking ones are, of what came before. */
static void deps_of(struct CUstream_st *stream, struct fake_deps *deps)
{
	struct CUstream_st *other;

	fake_deps_add(deps, stream, stream->submitted);
	for (other = stream->context->streams; stream == stream->context->legacy && other;
	     other = other->next)
		if ((other->flags & NON_BLOCKING) == 0)
			fake_deps_add(deps, other, other->submitted);
}

static int on_cuStreamQuery(enum fake_fn fn, struct CUstream_st *handle)
{
	struct fake_deps deps = {0};
	struct CUstream_st *stream;
	int result = enter(fn, handle, &stream);

	if (result != OK)
		return result;
	result = refuse_capturing(stream);
	if (result == OK) {
		deps_of(stream, &deps);
		result = fake_deps_done(&deps) ? OK : NOT_READY;
		fake_deps_clear(&deps);
	}
	return fake_leave(result);
}
FAKE_TWINS(cuStreamQuery, _ptsz, (struct CUstream_st * stream), stream)

static int on_cuStreamSynchronize(enum fake_fn fn, struct CUstream_st *handle)
{
	struct fake_deps deps = {0};
	struct CUstream_st *stream;
	struct CUctx_st *root;
	int result = enter(fn, handle, &stream);

	if (result != OK)
		return result;
	result = refuse_capturing(stream);
	if (result != OK)
		return fake_leave(result);
	root = stream->context->root;
	deps_of(stream, &deps);
	fake_wait(&deps);
	fake_pools_settle(root->device);
	return fake_leave(fake_context_check(root) == OK ? root->sticky : CONTEXT_IS_DESTROYED);
}
FAKE_TWINS(cuStreamSynchronize, _ptsz, (struct CUstream_st * stream), stream)

static int on_cuStreamGetFlags(enum fake_fn fn, struct CUstream_st *handle, unsigned int *flags)
{
	struct CUstream_st *stream;
	const int result = enter(fn, handle, &stream);

	if (result != OK)
		return result;
	if (flags == NULL)
		return fake_leave(INVALID_VALUE);
	*flags = stream->flags;
	return fake_leave(OK);
}
FAKE_TWINS(cuStreamGetFlags, _ptsz, (struct CUstream_st * stream, unsigned int *flags), stream,
	   flags)

static int on_cuStreamGetPriority(enum fake_fn fn, struct CUstream_st *handle, int *priority)
{
	struct CUstream_st *stream;
	const int result = enter(fn, handle, &stream);

	if (result != OK)
		return result;
	if (priority == NULL)
		return fake_leave(INVALID_VALUE);
	*priority = stream->priority;
	return fake_leave(OK);
}
FAKE_TWINS(cuStreamGetPriority, _ptsz, (struct CUstream_st * stream, int *priority), stream,
	   priority)

static int on_cuStreamGetCtx(enum fake_fn fn, struct CUstream_st *handle, struct CUctx_st **context)
{
	struct CUstream_st *stream;
	const int result = enter(fn, handle, &stream);

	if (result != OK)
		return result;
	if (context == NULL)
		return fake_leave(INVALID_VALUE);
	*context = stream->context;
	return fake_leave(OK);
}
FAKE_TWINS(cuStreamGetCtx, _ptsz, (struct CUstream_st * stream, struct CUctx_st **context), stream,
	   context)

static int on_cuStreamGetId(enum fake_fn fn, struct CUstream_st *handle, unsigned long long *id)
{
	struct CUstream_st *stream;
	const int result = enter(fn, handle, &stream);

	if (result != OK)
		return result;
	if (id == NULL)
		return fake_leave(INVALID_VALUE);
	*id = stream->object.id;
	return fake_leave(OK);
}
FAKE_TWINS(cuStreamGetId, _ptsz, (struct CUstream_st * stream, unsigned long long *id), stream, id)

static int on_cuStreamAddCallback(enum fake_fn fn, struct CUstream_st *handle,
				  void (*call)(struct CUstream_st *, int, void *), void *data,
				  unsigned int flags)
{
	const struct fake_work work = {.kind = WORK_CALLBACK, .callback = call, .data = data};
	struct CUstream_st *stream;
	const int result = enter(fn, handle, &stream);

	if (result != OK)
		return result;
	return fake_leave(call && flags == 0 ? fake_submit(stream, &work) : INVALID_VALUE);
}
FAKE_TWINS(cuStreamAddCallback, _ptsz,
	   (struct CUstream_st * stream, void (*call)(struct CUstream_st *, int, void *),
	    void *data, unsigned int flags),
	   stream, call, data, flags)

static int on_cuLaunchHostFunc(enum fake_fn fn, struct CUstream_st *handle, void (*call)(void *),
			       void *data)
{
	const struct fake_work work = {.kind = WORK_HOST, .host = call, .data = data};
	struct CUstream_st *stream;
	const int result = enter(fn, handle, &stream);

	if (result != OK)
		return result;
	return fake_leave(call ? fake_submit(stream, &work) : INVALID_VALUE);
}
FAKE_TWINS(cuLaunchHostFunc, _ptsz, (struct CUstream_st * stream, void (*call)(void *), void *data),
	   stream, call, data)
