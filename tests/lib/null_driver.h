/* null_driver.h -- a driver whose functions return at once, with a new address each time and
 * without a ledger: for measurements of the pool alone, and for lists of a million blocks, for
 * which the ledgers of the other two (pool_driver.h, tests/fakecuda) would take most of the time.
 * Any thread may call; no lock. */
#ifndef MT_TEST_NULL_DRIVER_H
#define MT_TEST_NULL_DRIVER_H

#include <stdatomic.h>
#include <stdint.h>

#include "gpu/driver.h"

/* current in this thread; the number of its device is in its lowest four bits */
static __thread struct CUctx_st *null_context;
static _Atomic uint64_t null_next_base = 0x100000000000;

static inline int null_alloc(uint64_t *dptr, size_t bytes)
{
	*dptr = atomic_fetch_add(&null_next_base, (bytes + 511) / 512 * 512);
	return 0;
}

static inline int null_free(uint64_t dptr)
{
	(void)dptr;
	return 0;
}

static inline int null_current(struct CUctx_st **context)
{
	*context = null_context;
	return 0;
}

static inline int null_device(int *device)
{
	*device = (int)((uintptr_t)null_context & 0xf);
	return 0;
}

static inline int null_push(struct CUctx_st *context)
{
	null_context = context;
	return 0;
}

static inline int null_pop(struct CUctx_st **context)
{
	*context = null_context;
	return 0;
}

static inline int null_create(struct CUevent_st **event, unsigned int flags)
{
	static _Atomic uintptr_t next = 4096;

	(void)flags;
	*event = (struct CUevent_st *)atomic_fetch_add(&next, 16);
	return 0;
}

static inline int null_event(struct CUevent_st *event)
{
	(void)event;
	return 0;
}

static inline int null_record(struct CUctx_st *context, struct CUevent_st *event)
{
	(void)context;
	(void)event;
	return 0;
}

static inline int null_mode(int *mode)
{
	(void)mode;
	return 0;
}

static const struct mt_driver null_driver = {
	.cuMemAlloc_v2 = null_alloc,
	.cuMemFree_v2 = null_free,
	.cuCtxGetCurrent = null_current,
	.cuCtxGetDevice = null_device,
	.cuCtxPushCurrent_v2 = null_push,
	.cuCtxPopCurrent_v2 = null_pop,
	.cuEventCreate = null_create,
	.cuEventQuery = null_event,
	.cuEventSynchronize = null_event,
	.cuThreadExchangeStreamCaptureMode = null_mode,
	.cuCtxRecordEvent = null_record,
};

#endif
