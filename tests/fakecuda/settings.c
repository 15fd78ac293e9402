/* settings.c -- what programs set without looking: remembered at most. */
#include "internal.h"

static int say_ok(enum fake_fn fn)
{
	const int result = fake_enter(fn, NULL);

	return result != OK ? result : fake_leave(OK);
}

static size_t limits[16];

int cuCtxSetLimit(int limit, size_t value)
{
	const int result = fake_enter(FN_cuCtxSetLimit, NULL);

	if (result != OK)
		return result;
	if (limit < 0 || limit >= (int)(sizeof(limits) / sizeof(limits[0])))
		return fake_leave(INVALID_VALUE);
	limits[limit] = value;
	return fake_leave(OK);
}

int cuCtxGetLimit(size_t *value, int limit)
{
	const int result = fake_enter(FN_cuCtxGetLimit, NULL);

	if (result != OK)
		return result;
	if (value == NULL || limit < 0 || limit >= (int)(sizeof(limits) / sizeof(limits[0])))
		return fake_leave(INVALID_VALUE);
	*value = limits[limit];
	return fake_leave(OK);
}

int cuCtxSetCacheConfig(int config)
{
	(void)config;
	return say_ok(FN_cuCtxSetCacheConfig);
}

int cuFuncSetCacheConfig(struct CUfunc_st *function, int config)
{
	(void)function;
	(void)config;
	return say_ok(FN_cuFuncSetCacheConfig);
}

int cuProfilerStart(void)
{
	return say_ok(FN_cuProfilerStart);
}

int cuProfilerStop(void)
{
	return say_ok(FN_cuProfilerStop);
}
