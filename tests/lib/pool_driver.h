/* pool_driver.h -- a scripted driver for unit tests of the pool. Work is a number that each context
 * counts up (`fake_issue`), and it is done when the test says so (`fake_finish`). It keeps a ledger
 * of what was allocated and refuses what a real driver refuses; it counts in `wrongs` what no
 * caller may do (an event recorded while a capture is open, a dead handle). Any call can be made to
 * fail: the Nth of all (fail_at), or each of one function (fail_of). One lock, any thread.
 *
 * Not the stand-in of tests/fakecuda: there work takes time on threads of its own, so that a test
 * cannot stop between two calls of the pool, fail the Nth call of all functions together, or give
 * an address that is still recorded. */
#ifndef MT_TEST_POOL_DRIVER_H
#define MT_TEST_POOL_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/lock.h"
#include "gpu/driver.h"
#include "gpu/capture.h"
#include "gpu/context.h"
#include "gpu/pool.h"

#define FAKE_CONTEXTS 8
#define FAKE_EVENTS   4096
#define FAKE_BLOCKS   65536

enum fake_call {
#define X(name, parameters, ...) FAKE_##name,
	MT_DRIVER_FUNCTIONS(X)
#undef X
		FAKE_CALLS
};

struct CUctx_st {
	int device;
	bool is_alive;
	uint64_t issued, done;
};
struct CUevent_st {
	struct CUctx_st *context;
	uint64_t mark;
	bool is_alive, is_recorded;
};
struct fake_block {
	uint64_t base;
	size_t bytes;
	struct CUctx_st *context;
};

static struct fake {
	pthread_mutex_t lock;
	struct CUctx_st contexts[FAKE_CONTEXTS];
	struct CUctx_st *primary[4];
	struct CUevent_st events[FAKE_EVENTS];
	struct fake_block blocks[FAKE_BLOCKS]; /* base 0: a hole */
	uint64_t next_base, capacity, used;
	unsigned highest_event, highest_block;
	_Atomic uint64_t calls[FAKE_CALLS];
	_Atomic uint64_t calls_all, wrongs;
	uint64_t fail_at;
	int fail_code;
	enum fake_call fail_of;
	int fail_of_code;
	_Atomic bool is_capturing;
	void (*on_call)(enum fake_call call); /* at the start of each, no lock held */
	/* each allocation gets the address of the last one: contexts that died unseen */
	bool same_address;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_base = 0x7f0000000000, .capacity = 1ull << 40};

static __thread struct CUctx_st *fake_stack[8];
static __thread int fake_depth; /* fake_stack[fake_depth] is current */

static int fake_enter(enum fake_call call)
{
	uint64_t number = atomic_fetch_add(&fake.calls_all, 1) + 1;

	atomic_fetch_add(&fake.calls[call], 1);
	mt_lock_check_foreign_call("a driver call");
	if (fake.on_call)
		fake.on_call(call);
	if (number == fake.fail_at) {
		/* The device goes on meanwhile: who waits for it does not wait without effect. */
		for (int i = 0; call == FAKE_cuMemAlloc_v2 && i < FAKE_CONTEXTS; i++)
			fake.contexts[i].done = fake.contexts[i].issued;
		return fake.fail_code;
	}
	return fake.fail_of_code && call == fake.fail_of ? fake.fail_of_code : 0;
}

#define FAKE_ENTER(name)                                                                           \
	do {                                                                                       \
		int fails_ = fake_enter(FAKE_##name);                                              \
		if (fails_)                                                                        \
			return fails_;                                                             \
	} while (0)

static void fake_wrong(const char *what)
{
	atomic_fetch_add(&fake.wrongs, 1);
	fprintf(stderr, "test driver: %s\n", what);
}

static __thread int fake_capture_mode; /* of the calling thread */

static void fake_unsafe(const char *what)
{
	if (atomic_load(&fake.is_capturing))
		fake_wrong(what);
}

static int fake_cuMemAlloc_v2(uint64_t *dptr, size_t bytes)
{
	struct CUctx_st *context = fake_stack[fake_depth];
	int result = MT_CU_OUT_OF_MEMORY;

	FAKE_ENTER(cuMemAlloc_v2);
	if (!dptr || !bytes)
		return MT_CU_INVALID_VALUE;
	if (!context || !context->is_alive)
		return MT_CU_INVALID_CONTEXT;
	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < FAKE_BLOCKS && bytes <= fake.capacity - fake.used; i++) {
		if (fake.blocks[i].base)
			continue;
		fake.blocks[i] = (struct fake_block){fake.next_base, bytes, context};
		*dptr = fake.next_base;
		if (!fake.same_address)
			fake.next_base += (bytes + 511) / 512 * 512;
		fake.used += bytes;
		fake.highest_block = i >= fake.highest_block ? i + 1 : fake.highest_block;
		result = MT_CU_SUCCESS;
		break;
	}
	pthread_mutex_unlock(&fake.lock);
	return result;
}

static int fake_cuMemFree_v2(uint64_t dptr)
{
	int result = MT_CU_INVALID_VALUE;

	FAKE_ENTER(cuMemFree_v2);
	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < fake.highest_block; i++) {
		struct fake_block *block = &fake.blocks[i];

		if (!dptr || block->base != dptr)
			continue;
		block->context->done = block->context->issued; /* it waits, as the driver may */
		fake.used -= block->bytes;
		block->base = 0;
		result = MT_CU_SUCCESS;
		break;
	}
	pthread_mutex_unlock(&fake.lock);
	return result;
}

static int fake_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	FAKE_ENTER(cuMemGetInfo_v2);
	pthread_mutex_lock(&fake.lock);
	*free_bytes = fake.capacity - fake.used;
	*total_bytes = fake.capacity;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int fake_cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	FAKE_ENTER(cuDeviceTotalMem_v2);
	*bytes = fake.capacity;
	return 0;
}

static int fake_cuCtxGetCurrent(struct CUctx_st **context)
{
	FAKE_ENTER(cuCtxGetCurrent);
	*context = fake_stack[fake_depth];
	return 0;
}

static int fake_cuCtxGetDevice(int *device)
{
	FAKE_ENTER(cuCtxGetDevice);
	if (!fake_stack[fake_depth])
		return MT_CU_INVALID_CONTEXT;
	*device = fake_stack[fake_depth]->device;
	return 0;
}

static int fake_cuCtxPushCurrent_v2(struct CUctx_st *context)
{
	FAKE_ENTER(cuCtxPushCurrent_v2);
	if (!context->is_alive) {
		fake_wrong("a dead context is pushed");
		return MT_CU_INVALID_CONTEXT;
	}
	fake_stack[++fake_depth] = context;
	return 0;
}

static int fake_cuCtxPopCurrent_v2(struct CUctx_st **context)
{
	int failed = fake_enter(FAKE_cuCtxPopCurrent_v2);

	/* Pops even where it answers an error: else nothing after it would mean anything. */
	*context = fake_stack[fake_depth];
	fake_stack[fake_depth--] = NULL;
	return failed;
}

static int fake_cuEventCreate(struct CUevent_st **event, unsigned int flags)
{
	int result = MT_CU_OUT_OF_MEMORY;

	FAKE_ENTER(cuEventCreate);
	if (flags != MT_CU_EVENT_DISABLE_TIMING)
		fake_wrong("an event with timing");
	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < FAKE_EVENTS; i++) {
		if (fake.events[i].is_alive)
			continue;
		fake.events[i] =
			(struct CUevent_st){.context = fake_stack[fake_depth], .is_alive = true};
		fake.highest_event = i >= fake.highest_event ? i + 1 : fake.highest_event;
		*event = &fake.events[i];
		result = MT_CU_SUCCESS;
		break;
	}
	pthread_mutex_unlock(&fake.lock);
	return result;
}

static int fake_cuCtxRecordEvent(struct CUctx_st *context, struct CUevent_st *event)
{
	fake_unsafe("an event is recorded during a capture");
	if (!fake_stack[fake_depth])
		fake_wrong("an event is recorded without a current context");
	FAKE_ENTER(cuCtxRecordEvent);
	pthread_mutex_lock(&fake.lock);
	if (!event->is_alive || !context->is_alive || event->context != context)
		fake_wrong("a dead or foreign event is recorded");
	event->is_recorded = true;
	event->mark = context->issued;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int fake_cuEventQuery(struct CUevent_st *event)
{
	int result;

	if (fake_capture_mode != MT_CU_CAPTURE_RELAXED)
		fake_unsafe("an event is queried during a capture");
	FAKE_ENTER(cuEventQuery);
	pthread_mutex_lock(&fake.lock);
	if (!event->is_alive || !event->is_recorded || !event->context->is_alive)
		fake_wrong("a dead event is queried");
	result = event->context->done >= event->mark ? MT_CU_SUCCESS : MT_CU_NOT_READY;
	pthread_mutex_unlock(&fake.lock);
	return result;
}

/* The device does what it waits for. */
static int fake_cuEventSynchronize(struct CUevent_st *event)
{
	FAKE_ENTER(cuEventSynchronize);
	pthread_mutex_lock(&fake.lock);
	if (event->context->done < event->mark)
		event->context->done = event->mark;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int fake_cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = fake_capture_mode;

	FAKE_ENTER(cuThreadExchangeStreamCaptureMode);
	fake_capture_mode = *mode;
	*mode = before;
	return 0;
}

static int fake_cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active)
{
	FAKE_ENTER(cuDevicePrimaryCtxGetState);
	*flags = 0;
	*active = fake.primary[device] != NULL;
	return 0;
}

static int fake_cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
	FAKE_ENTER(cuDevicePrimaryCtxRetain);
	*context = fake.primary[device];
	return 0;
}

static int fake_cuDevicePrimaryCtxRelease_v2(int device)
{
	(void)device;
	FAKE_ENTER(cuDevicePrimaryCtxRelease_v2);
	return 0;
}

static struct mt_driver fake_driver(void)
{
	struct mt_driver driver = {0};

#define HAS(name) driver.name = fake_##name
	HAS(cuMemAlloc_v2);
	HAS(cuMemFree_v2);
	HAS(cuMemGetInfo_v2);
	HAS(cuDeviceTotalMem_v2);
	HAS(cuCtxGetCurrent);
	HAS(cuCtxGetDevice);
	HAS(cuCtxPushCurrent_v2);
	HAS(cuCtxPopCurrent_v2);
	HAS(cuEventCreate);
	HAS(cuCtxRecordEvent);
	HAS(cuEventQuery);
	HAS(cuEventSynchronize);
	HAS(cuThreadExchangeStreamCaptureMode);
	HAS(cuDevicePrimaryCtxGetState);
	HAS(cuDevicePrimaryCtxRetain);
	HAS(cuDevicePrimaryCtxRelease_v2);
#undef HAS
	return driver;
}

/* ---- what a test says ---- */

static inline struct CUctx_st *fake_context(int number, int device)
{
	fake.contexts[number] = (struct CUctx_st){.device = device, .is_alive = true};
	return &fake.contexts[number];
}

static inline void fake_make_current(struct CUctx_st *context)
{
	fake_stack[fake_depth] = context;
}

/* Work is enqueued in the context; it is done when finished. */
static inline void fake_issue(struct CUctx_st *context)
{
	pthread_mutex_lock(&fake.lock);
	context->issued++;
	pthread_mutex_unlock(&fake.lock);
}

static inline void fake_finish(struct CUctx_st *context)
{
	pthread_mutex_lock(&fake.lock);
	context->done = context->issued;
	pthread_mutex_unlock(&fake.lock);
}

/* As cuCtxDestroy: blocks and events go with it. */
static inline void fake_destroy(struct CUctx_st *context)
{
	pthread_mutex_lock(&fake.lock);
	context->is_alive = false;
	for (unsigned i = 0; i < fake.highest_block; i++) {
		if (!fake.blocks[i].base || fake.blocks[i].context != context)
			continue;
		fake.used -= fake.blocks[i].bytes;
		fake.blocks[i].base = 0;
	}
	for (unsigned i = 0; i < fake.highest_event; i++)
		if (fake.events[i].context == context)
			fake.events[i].is_alive = false;
	pthread_mutex_unlock(&fake.lock);
}

static inline unsigned fake_events_alive(void)
{
	unsigned alive = 0;

	for (unsigned i = 0; i < fake.highest_event; i++)
		alive += fake.events[i].is_alive;
	return alive;
}

/* The pool knows a block with this base, live or cached. */
static inline bool is_known(uint64_t dptr)
{
	size_t bytes;
	bool is_cached;

	return mt_pool_range(dptr, &bytes, &is_cached);
}

static inline uint64_t fake_calls(enum fake_call call)
{
	return atomic_load(&fake.calls[call]);
}

/* cuMemFree as gpu/entries.c has it: what the pool does not know is the driver's. */
static inline int fake_free(uint64_t dptr)
{
	int result;

	return mt_pool_free(dptr, &result) ? result : mt_pool_driver()->cuMemFree_v2(dptr);
}

/* As a wrapper of an allocating call does when nothing helps; the bytes that came back. */
static inline uint64_t fake_make_room(int device)
{
	struct mt_pool_shortage shortage;
	struct mt_pool_usage usage;
	uint64_t before = 0, after = 0;

	for (int i = 0; i < 2; i++) {
		mt_pool_usage(i, &usage);
		before += usage.returned_bytes;
	}
	if (!mt_pool_shortage_begin(&shortage, device, 0))
		return 0;
	while (mt_pool_shortage_next(&shortage))
		;
	mt_pool_shortage_end(&shortage);
	for (int i = 0; i < 2; i++) {
		mt_pool_usage(i, &usage);
		after += usage.returned_bytes;
	}
	return after - before;
}

#endif
