/* green.c -- green contexts: parts of the primary one with streams and events of their own, and its
 * memory. */
#include "internal.h"

struct CUgreenCtx_st {
	struct fake_object object;
	struct CUctx_st *context;
};

enum { TYPE_SM = 1, SM_COUNT = 108, DEFAULT_STREAM = 1, NON_BLOCKING = 1 };

static int green_check(const struct CUgreenCtx_st *green)
{
	if (!fake_object_is(FAKE_GREEN, green))
		return INVALID_HANDLE;
	return fake_context_check(green->context);
}

int cuDeviceGetDevResource(int device, struct fake_resource *resource, int type)
{
	const int result = fake_enter(FN_cuDeviceGetDevResource, NULL);

	if (result != OK)
		return result;
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	if (resource == NULL)
		return fake_leave(INVALID_VALUE);
	if (type != TYPE_SM)
		return fake_leave(914); /* CUDA_ERROR_INVALID_RESOURCE_TYPE */
	*resource = (struct fake_resource){
		.type = TYPE_SM, .count = SM_COUNT, .least = 4, .aligned = 2};
	return fake_leave(OK);
}

/* A description says nothing that a machine without multiprocessors would need: it is a number for
 * its resources. */
int cuDevResourceGenerateDesc(struct CUdevResourceDesc_st **desc, struct fake_resource *resources,
			      unsigned int count)
{
	const int result = fake_enter(FN_cuDevResourceGenerateDesc, NULL);

	if (result != OK)
		return result;
	if (desc == NULL || resources == NULL || count == 0 || resources[0].type != TYPE_SM)
		return fake_leave(INVALID_VALUE);
	*desc = (struct CUdevResourceDesc_st *)(uintptr_t)(0x1000 + fake_next_id());
	return fake_leave(OK);
}

int cuGreenCtxCreate(struct CUgreenCtx_st **out, struct CUdevResourceDesc_st *desc, int device,
		     unsigned int flags)
{
	struct CUgreenCtx_st *green;
	struct CUctx_st *primary;
	const int result = fake_enter(FN_cuGreenCtxCreate, NULL);

	if (result != OK)
		return result;
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	primary = fake_devices[device].primary;
	if (out == NULL || desc == NULL || flags != DEFAULT_STREAM)
		return fake_leave(INVALID_VALUE);
	if (fake_context_check(primary) == OK)
		primary->refs++;
	else
		primary = fake_context_make(device, true);
	green = primary ? fake_object_new(FAKE_GREEN, sizeof(*green)) : NULL;
	if (green == NULL)
		return fake_leave(OUT_OF_MEMORY);
	green->context = fake_context_make(device, false);
	if (green->context == NULL)
		return fake_leave(OUT_OF_MEMORY);
	green->context->is_green = true;
	green->context->root = primary;
	*out = green;
	return fake_leave(OK);
}

int cuGreenCtxDestroy(struct CUgreenCtx_st *green)
{
	struct CUctx_st *primary;
	int result = fake_enter(FN_cuGreenCtxDestroy, NULL);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_GREEN, green))
		return fake_leave(INVALID_HANDLE);
	fake_object_free(FAKE_GREEN, green);
	if (fake_context_check(green->context) != OK)
		return fake_leave(OK); /* went with its primary one */
	primary = green->context->root;
	if (fake_current() == green->context)
		fake_thread.depth--;
	fake_context_end(green->context);
	if (fake_context_check(primary) == OK && --primary->refs == 0)
		fake_context_end(primary);
	return fake_leave(result);
}

int cuCtxFromGreenCtx(struct CUctx_st **context, struct CUgreenCtx_st *green)
{
	int result = fake_enter(FN_cuCtxFromGreenCtx, NULL);

	if (result != OK)
		return result;
	result = context ? green_check(green) : INVALID_VALUE;
	if (result == OK)
		*context = green->context;
	return fake_leave(result);
}

int cuGreenCtxStreamCreate(struct CUstream_st **stream, struct CUgreenCtx_st *green,
			   unsigned int flags, int priority)
{
	struct CUstream_st *made;
	int result = fake_enter(FN_cuGreenCtxStreamCreate, NULL);

	if (result != OK)
		return result;
	result = stream && flags == NON_BLOCKING ? green_check(green) : INVALID_VALUE;
	if (result != OK)
		return fake_leave(result);
	made = fake_stream_make(green->context, flags, priority);
	if (made == NULL)
		return fake_leave(OUT_OF_MEMORY);
	*stream = made;
	return fake_leave(OK);
}

int cuGreenCtxRecordEvent(struct CUgreenCtx_st *green, struct CUevent_st *event)
{
	int result = fake_enter(FN_cuGreenCtxRecordEvent, NULL);

	if (result != OK)
		return result;
	result = green_check(green);
	return fake_leave(result == OK ? fake_event_record_context(green->context, event) : result);
}
