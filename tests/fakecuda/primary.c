/* primary.c -- the primary context of each device, counted by who retained it. */
#include "internal.h"

static bool is_active(int device)
{
	struct CUctx_st *primary = fake_devices[device].primary;

	/* One that is just being taken down is waited for. */
	while (primary && fake_object_is(FAKE_CONTEXT, primary) && primary->is_ending)
		fake_wait_change();
	return primary && fake_object_is(FAKE_CONTEXT, primary);
}

int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
	const int result = fake_enter(FN_cuDevicePrimaryCtxRetain, NULL);

	if (result != OK)
		return result;
	if (context == NULL)
		return fake_leave(INVALID_VALUE);
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	if (is_active(device))
		fake_devices[device].primary->refs++;
	else if (fake_context_make(device, true) == NULL)
		return fake_leave(OUT_OF_MEMORY);
	*context = fake_devices[device].primary;
	return fake_leave(OK);
}

static int release(enum fake_fn fn, int device)
{
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	if (!is_active(device))
		return fake_leave(INVALID_CONTEXT);
	if (--fake_devices[device].primary->refs == 0)
		fake_context_end(fake_devices[device].primary);
	return fake_leave(OK);
}

int cuDevicePrimaryCtxRelease(int device)
{
	return release(FN_cuDevicePrimaryCtxRelease, device);
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	return release(FN_cuDevicePrimaryCtxRelease_v2, device);
}

static int reset(enum fake_fn fn, int device)
{
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	if (is_active(device))
		fake_context_end(fake_devices[device].primary);
	return fake_leave(OK);
}

int cuDevicePrimaryCtxReset(int device)
{
	return reset(FN_cuDevicePrimaryCtxReset, device);
}

int cuDevicePrimaryCtxReset_v2(int device)
{
	return reset(FN_cuDevicePrimaryCtxReset_v2, device);
}

static int set_flags(enum fake_fn fn, int device, unsigned int flags)
{
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	fake_devices[device].primary_flags = flags;
	if (is_active(device))
		fake_devices[device].primary->flags = flags;
	return fake_leave(OK);
}

int cuDevicePrimaryCtxSetFlags(int device, unsigned int flags)
{
	return set_flags(FN_cuDevicePrimaryCtxSetFlags, device, flags);
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned int flags)
{
	return set_flags(FN_cuDevicePrimaryCtxSetFlags_v2, device, flags);
}

int cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active)
{
	const int result = fake_enter(FN_cuDevicePrimaryCtxGetState, NULL);

	if (result != OK)
		return result;
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	if (flags == NULL || active == NULL)
		return fake_leave(INVALID_VALUE);
	*flags = fake_devices[device].primary_flags;
	*active = is_active(device);
	return fake_leave(OK);
}
