/* context.c -- contexts: made and ended, and each thread's stack of current ones. The primary
 * context of a device keeps its handle over release and retain, as with a real driver; what it held
 * is gone then. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

_Thread_local struct fake_thread fake_thread;
struct CUctx_st *fake_contexts;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

/* The end of a thread: its per-thread default streams go. */
static void thread_ends(void *thread)
{
	struct CUctx_st *context;
	struct CUstream_st *stream, *next;

	fake_lock();
	for (context = fake_contexts; context; context = context->next)
		for (stream = context->streams; stream; stream = next) {
			next = stream->next;
			if (stream->thread == thread)
				/* a dying one stays, or is the only one taken away */
				fake_stream_end(stream);
		}
	fake_unlock();
}

static void make_key(void)
{
	pthread_key_create(&thread_key, thread_ends);
}

void fake_thread_watch(void)
{
	if (fake_thread.is_watched)
		return;
	fake_thread.is_watched = true;
	pthread_once(&thread_once, make_key);
	pthread_setspecific(thread_key, &fake_thread);
}

int fake_context_check(const struct CUctx_st *context)
{
	if (context == NULL)
		return INVALID_CONTEXT;
	return fake_object_is(FAKE_CONTEXT, context) && !context->is_ending ? OK : INVALID_CONTEXT;
}

struct CUctx_st *fake_current(void)
{
	struct CUctx_st *context;

	if (fake_thread.depth == 0)
		return NULL;
	context = fake_thread.stack[fake_thread.depth - 1].context;
	if (fake_context_check(context) != OK)
		return NULL;
	/* A primary context that came back is the same one to who had it current. */
	if (context->object.id != fake_thread.stack[fake_thread.depth - 1].id &&
	    !context->is_primary)
		return NULL;
	return context;
}

static int push(struct CUctx_st *context)
{
	if (fake_thread.depth == (int)(sizeof(fake_thread.stack) / sizeof(fake_thread.stack[0])))
		return INVALID_VALUE;
	fake_thread.stack[fake_thread.depth].context = context;
	fake_thread.stack[fake_thread.depth++].id = context->object.id;
	return OK;
}

static void set_up(struct CUctx_st *context, int device, bool is_primary)
{
	const struct fake_object object = context->object;

	memset(context, 0, sizeof(*context));
	context->object = object;
	context->device = device;
	context->is_primary = is_primary;
	context->root = context;
	context->refs = 1;
	context->next = fake_contexts;
	fake_contexts = context;
	fake_ledger.contexts++;
}

struct CUctx_st *fake_context_make(int device, bool is_primary)
{
	struct CUctx_st *context = is_primary ? fake_devices[device].primary : NULL;

	if (context != NULL)
		context->object.id = fake_next_id();
	else
		context = fake_object_new(FAKE_CONTEXT, sizeof(*context));
	if (context == NULL)
		return NULL;
	set_up(context, device, is_primary);
	if (is_primary) {
		fake_devices[device].primary = context;
		context->flags = fake_devices[device].primary_flags;
	}
	return context;
}

/* Work in flight ends first; then everything of it is gone. */
void fake_context_end(struct CUctx_st *context)
{
	struct fake_deps deps = {0};
	struct CUctx_st **link, *green, *next;
	struct CUstream_st *stream, *next_stream;

	context->is_ending = true;
	for (green = fake_contexts; green && !context->is_green; green = next) {
		next = green->next;
		if (green->is_green && green->root == context && !green->is_ending) {
			fake_context_end(green);
			next = fake_contexts; /* the lock was let go meanwhile */
		}
	}
	fake_capture_spoil_context(context);
	fake_context_deps(context, false, &deps);
	fake_wait(&deps);
	for (stream = context->streams; stream; stream = next_stream) {
		next_stream = stream->next;
		fake_stream_end(stream);
	}
	while (context->streams)
		fake_wait_change();
	fake_context_events_end(context);
	while (context->blocks)
		fake_block_free(context->blocks);
	fake_peers_forget(context);
	fake_host_context_ends(context);
	fake_deps_clear(&context->barrier);
	for (link = &fake_contexts; *link != context; link = &(*link)->next)
		;
	*link = context->next;
	fake_ledger.contexts--;
	if (context->is_primary)
		context->object.id = 0; /* its slot stays the device's */
	else
		fake_object_free(FAKE_CONTEXT, context);
	fake_notify();
}

static int create(enum fake_fn fn, struct CUctx_st **out, unsigned int flags, int device)
{
	struct CUctx_st *context;
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (out == NULL)
		return fake_leave(INVALID_VALUE);
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	context = fake_context_make(device, false);
	if (context == NULL)
		return fake_leave(OUT_OF_MEMORY);
	context->flags = flags;
	*out = context;
	return fake_leave(push(context));
}

int cuCtxCreate(struct CUctx_st **context, unsigned int flags, int device)
{
	return create(FN_cuCtxCreate, context, flags, device);
}

int cuCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device)
{
	return create(FN_cuCtxCreate_v2, context, flags, device);
}

int cuCtxCreate_v3(struct CUctx_st **context, void *affinity, int count, unsigned int flags,
		   int device)
{
	(void)affinity;
	(void)count;
	return create(FN_cuCtxCreate_v3, context, flags, device);
}

int cuCtxCreate_v4(struct CUctx_st **context, void *params, unsigned int flags, int device)
{
	(void)params;
	return create(FN_cuCtxCreate_v4, context, flags, device);
}

/* For who draws: nothing is drawn here. */
int cuGLCtxCreate(struct CUctx_st **context, unsigned int flags, int device)
{
	return create(FN_cuGLCtxCreate, context, flags, device);
}

int cuGLCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device)
{
	return create(FN_cuGLCtxCreate_v2, context, flags, device);
}

int cuVDPAUCtxCreate(struct CUctx_st **context, unsigned int flags, int device, unsigned int vdpau,
		     void *get_address)
{
	(void)vdpau;
	(void)get_address;
	return create(FN_cuVDPAUCtxCreate, context, flags, device);
}

int cuVDPAUCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device,
			unsigned int vdpau, void *get_address)
{
	(void)vdpau;
	(void)get_address;
	return create(FN_cuVDPAUCtxCreate_v2, context, flags, device);
}

static int destroy(enum fake_fn fn, struct CUctx_st *context)
{
	int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	result = fake_context_check(context);
	if (result != OK || context->is_primary)
		return fake_leave(INVALID_CONTEXT);
	/* Current to the calling thread: popped. To others it stays, as a destroyed one. */
	if (fake_current() == context)
		fake_thread.depth--;
	fake_context_end(context);
	return fake_leave(OK);
}

int cuCtxDestroy(struct CUctx_st *context)
{
	return destroy(FN_cuCtxDestroy, context);
}

int cuCtxDestroy_v2(struct CUctx_st *context)
{
	return destroy(FN_cuCtxDestroy_v2, context);
}

/* The older way: contexts are counted, and go with the last who detaches. */
int cuCtxAttach(struct CUctx_st **out, unsigned int flags)
{
	struct CUctx_st *context;
	const int result = fake_enter(FN_cuCtxAttach, &context);

	if (result != OK)
		return result;
	if (out == NULL || flags != 0)
		return fake_leave(INVALID_VALUE);
	context->refs++;
	*out = context;
	return fake_leave(OK);
}

int cuCtxDetach(struct CUctx_st *context)
{
	const int result = fake_enter(FN_cuCtxDetach, NULL);

	if (result != OK)
		return result;
	if (context == NULL || fake_current() != context || context->is_primary)
		return fake_leave(INVALID_CONTEXT);
	if (--context->refs == 0) {
		fake_thread.depth--;
		fake_context_end(context);
	}
	return fake_leave(OK);
}

static int push_current(enum fake_fn fn, struct CUctx_st *context)
{
	int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	result = fake_context_check(context);
	return fake_leave(result == OK ? push(context) : result);
}

int cuCtxPushCurrent(struct CUctx_st *context)
{
	return push_current(FN_cuCtxPushCurrent, context);
}

int cuCtxPushCurrent_v2(struct CUctx_st *context)
{
	return push_current(FN_cuCtxPushCurrent_v2, context);
}

static int pop_current(enum fake_fn fn, struct CUctx_st **context)
{
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (fake_thread.depth == 0)
		return fake_leave(INVALID_CONTEXT);
	fake_thread.depth--;
	if (context != NULL)
		*context = fake_thread.stack[fake_thread.depth].context;
	return fake_leave(OK);
}

int cuCtxPopCurrent(struct CUctx_st **context)
{
	return pop_current(FN_cuCtxPopCurrent, context);
}

int cuCtxPopCurrent_v2(struct CUctx_st **context)
{
	return pop_current(FN_cuCtxPopCurrent_v2, context);
}

int cuCtxSetCurrent(struct CUctx_st *context)
{
	int result = fake_enter(FN_cuCtxSetCurrent, NULL);

	if (result != OK)
		return result;
	result = context ? fake_context_check(context) : OK;
	if (result != OK)
		return fake_leave(result);
	if (fake_thread.depth > 0)
		fake_thread.depth--;
	return fake_leave(context ? push(context) : OK);
}

int cuCtxGetCurrent(struct CUctx_st **context)
{
	const int result = fake_enter(FN_cuCtxGetCurrent, NULL);

	if (result != OK)
		return result;
	if (context == NULL)
		return fake_leave(INVALID_VALUE);
	*context = fake_thread.depth ? fake_thread.stack[fake_thread.depth - 1].context : NULL;
	return fake_leave(OK);
}

static int get_device(enum fake_fn fn, int *device, struct CUctx_st *context, bool is_given)
{
	int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (!is_given || context == NULL) {
		context = fake_current();
		result = context || fake_thread.depth == 0 ? OK : CONTEXT_IS_DESTROYED;
	}
	if (result == OK)
		result = fake_context_check(context);
	if (result == OK && device == NULL)
		result = INVALID_VALUE;
	if (result == OK)
		*device = context->device;
	return fake_leave(result);
}

int cuCtxGetDevice(int *device)
{
	return get_device(FN_cuCtxGetDevice, device, NULL, false);
}

int cuCtxGetDevice_v2(int *device, struct CUctx_st *context)
{
	return get_device(FN_cuCtxGetDevice_v2, device, context, true);
}

int cuCtxGetFlags(unsigned int *flags)
{
	struct CUctx_st *context;
	const int result = fake_enter(FN_cuCtxGetFlags, &context);

	if (result != OK)
		return result;
	if (flags == NULL)
		return fake_leave(INVALID_VALUE);
	*flags = context->flags;
	return fake_leave(OK);
}

int cuCtxGetId(struct CUctx_st *context, unsigned long long *id)
{
	int result = fake_enter(FN_cuCtxGetId, NULL);

	if (result != OK)
		return result;
	if (context == NULL)
		context = fake_current();
	result = id ? fake_context_check(context) : INVALID_VALUE;
	if (result == OK)
		*id = context->object.id;
	return fake_leave(result);
}

int cuCtxGetApiVersion(struct CUctx_st *context, unsigned int *version)
{
	int result = fake_enter(FN_cuCtxGetApiVersion, NULL);

	if (result != OK)
		return result;
	if (context == NULL)
		context = fake_current();
	result = version ? fake_context_check(context) : INVALID_VALUE;
	if (result == OK)
		*version = 3020;
	return fake_leave(result);
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	const int result = fake_enter(FN_cuCtxGetStreamPriorityRange, NULL);

	if (result != OK)
		return result;
	if (least != NULL)
		*least = 0;
	if (greatest != NULL)
		*greatest = -5;
	return fake_leave(OK);
}

/* Waiting for a context while something in it captures conflicts with the capture whatever its
 * mode. */
static int synchronize(struct CUctx_st *context)
{
	struct fake_deps deps = {0};

	if (fake_capture_spoil_context(context))
		return CAPTURE_UNSUPPORTED;
	fake_context_deps(context, false, &deps);
	fake_wait(&deps);
	fake_pools_settle(context->device);
	return fake_context_check(context) == OK ? context->root->sticky : CONTEXT_IS_DESTROYED;
}

int cuCtxSynchronize(void)
{
	struct CUctx_st *context;
	const int result = fake_enter(FN_cuCtxSynchronize, &context);

	return result != OK ? result : fake_leave(synchronize(context));
}

int cuCtxSynchronize_v2(struct CUctx_st *context)
{
	int result = fake_enter(FN_cuCtxSynchronize_v2, NULL);

	if (result != OK)
		return result;
	if (context == NULL)
		context = fake_current();
	result = fake_context_check(context);
	return fake_leave(result == OK ? synchronize(context) : result);
}
