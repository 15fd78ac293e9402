/* entries_doubles.h -- what stands around the wrappers of entry/cuda*.c in their unit tests: a
 * driver that writes down each call, and a pool, a gate and a report that do the same. What
 * happened is one line of words in `story`. */
#ifndef ENTRIES_DOUBLES_H
#define ENTRIES_DOUBLES_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gpu/unpooled.h"
#include "gpu/driver.h"
#include "gpu/wake.h"
#include "gpu/entries.h"
#include "core/init.h"
#include "gpu/capture.h"
#include "gpu/context_lifecycle.h"
#include "gpu/decay.h"
#include "gpu/device_memory.h"
#include "gpu/pool.h"
#include "gpu/release.h"
#include "gpu/shortage.h"
#include "gpu/usage.h"
#include "gpu/oom.h"

#define UNUSED  __attribute__((unused))
#define DPTR    0x7000000000ull /* what an allocation answers */
#define CURRENT ((struct CUctx_st *)0xc0)
#define PRIMARY ((struct CUctx_st *)0xc1)

#define ARGUMENTS 11 /* of cuLaunchKernel, which has the most */
typedef int (*any_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		      uint64_t, uint64_t, uint64_t, uint64_t);

static char backoff[4096];
static bool is_on = true;
static bool has_driver = true;
static uint64_t seen[ARGUMENTS]; /* arguments of the last call of a wrapped function */
static int script[8];            /* what calls of wrapped functions answer, in turn; then success */
static unsigned script_at;

/* Of the pool's double. */
static uint64_t room_bytes;
static uint64_t block_base, block_bytes; /* one block, 0: none */
static bool block_is_cached;
static uint64_t cached_bytes;
static bool capture_is_open;
static int primary_is_active = 1;
static int devices = 1;
/* which the pool knows to be the program's own */
static struct CUctx_st *made_context = (struct CUctx_st *)0xcc;
static unsigned knows_current;

static void tell(const char *word)
{
	size_t used = strlen(backoff);

	snprintf(backoff + used, sizeof(backoff) - used, "%s%s", used ? " " : "", word);
}

/* A wrapped function of the driver: writes outputs that are addresses of ours. */
static int called(const char *name, const uint64_t given[ARGUMENTS])
{
	int result = script_at < 8 ? script[script_at++] : 0;

	tell(name);
	memcpy(seen, given, sizeof(seen));
	if (result != MT_CU_SUCCESS)
		return result;
	if (strstr(name, "Alloc") || strstr(name, "Create") || strstr(name, "OpenMem") ||
	    strstr(name, "FromGreen")) {
		if (given[0] > 4096 && !strstr(name, "Green"))
			*(uint64_t *)(uintptr_t)given[0] = DPTR;
		if (strcmp(name, "cuMemAllocPitch_v2") == 0 && given[1] > 4096)
			*(uint64_t *)(uintptr_t)given[1] = 512;
	} else if (strcmp(name, "cuMemGetInfo_v2") == 0) {
		if (given[0] > 4096)
			*(uint64_t *)(uintptr_t)given[0] = 600;
		if (given[1] > 4096)
			*(uint64_t *)(uintptr_t)given[1] = 1000;
	} else if (strcmp(name, "cuMemGetAddressRange_v2") == 0) {
		if (given[2] < DPTR || given[2] >= DPTR + 4096)
			return MT_CU_NOT_FOUND;
		if (given[0] > 4096)
			*(uint64_t *)(uintptr_t)given[0] = DPTR;
		if (given[1] > 4096)
			*(uint64_t *)(uintptr_t)given[1] = 4096;
	} else if (strcmp(name, "cuPointerGetAttribute") == 0 &&
		   given[1] == MT_CU_POINTER_RANGE_SIZE) {
		*(uint64_t *)(uintptr_t)given[0] = 4096;
	} else if (strcmp(name, "cuPointerGetAttribute") == 0 &&
		   given[1] == MT_CU_POINTER_DEVICE_ORDINAL) {
		*(int *)(uintptr_t)given[0] = 1;
	}
	return result;
}

#define X(name, parameters)                                                                        \
	static int real_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,         \
			       uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j,         \
			       uint64_t k)                                                         \
	{                                                                                          \
		const uint64_t given[ARGUMENTS] = {a, b, c, d, e, f, g, h, i, j, k};               \
                                                                                                   \
		return called(#name, given);                                                       \
	}
MT_DRIVER_WRAPPED(X)
#undef X

/* Those that are only called. */
static int get_state(int device UNUSED, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = primary_is_active;
	return 0;
}
static int retain(struct CUctx_st **context, int device)
{
	if ((uintptr_t)context < 4096) /* a number, from a test that hands arguments on */
		return real_cuDevicePrimaryCtxRetain((uint64_t)(uintptr_t)context, (uint64_t)device,
						     0, 0, 0, 0, 0, 0, 0, 0, 0);
	*context = PRIMARY;
	return 0;
}
static int get_current(struct CUctx_st **context)
{
	*context = CURRENT;
	return 0;
}
static int get_device(int *device)
{
	*device = 2;
	return 0;
}
static int get_count(int *count)
{
	*count = devices;
	return 0;
}
static int push(struct CUctx_st *context)
{
	return context == (struct CUctx_st *)0xbad ? MT_CU_INVALID_CONTEXT : 0;
}
static int pop(struct CUctx_st **context)
{
	*context = NULL;
	return 0;
}
static int is_capturing(struct CUstream_st *stream, int *status)
{
	*status = stream == (struct CUstream_st *)0x5c ? MT_CU_CAPTURE_ACTIVE : MT_CU_CAPTURE_NONE;
	return 0;
}

#define X(name, parameters) .name = (int(*) parameters)(void (*)(void))real_##name,
static struct mt_driver driver_table = {
	MT_DRIVER_WRAPPED(X).cuDevicePrimaryCtxGetState = get_state,
	.cuCtxGetCurrent = get_current,
	.cuCtxGetDevice = get_device,
	.cuDeviceGetCount = get_count,
	.cuCtxPushCurrent_v2 = push,
	.cuCtxPopCurrent_v2 = pop,
	.cuStreamIsCapturing = is_capturing,
	.cuStreamIsCapturing_ptsz = is_capturing,
};
#undef X

/* Wrapped, and called by other wrappers for its answer. */
__attribute__((constructor)) static void answer_retain(void)
{
	driver_table.cuDevicePrimaryCtxRetain = retain;
}

const struct mt_driver *mt_driver(void)
{
	return has_driver ? &driver_table : NULL;
}

bool mt_gpu_wake(void)
{
	errno = 95;
	return is_on;
}

/* ---- the pool; each call spoils errno, which the wrappers have to keep ---- */

static int by_pool(const char *word, int result)
{
	tell(word);
	errno = 99;
	return result;
}

int mt_pool_alloc(uint64_t *out_dptr UNUSED, size_t bytes UNUSED)
{
	return by_pool("pool-alloc", script[0]);
}
bool mt_pool_take_back(uint64_t dptr, int *out_result)
{
	errno = 99;
	if (!block_base || dptr != block_base)
		return false;
	*out_result = by_pool("pool-free", script[0]);
	return true;
}
void mt_pool_mark_non_recyclable(uint64_t dptr UNUSED)
{
	(void)by_pool("taint", 0);
}
bool mt_pool_release(uint64_t dptr)
{
	(void)by_pool("release", 0);
	return dptr == block_base && !block_is_cached;
}
bool mt_pool_range(uint64_t base, size_t *out_bytes, bool *out_cached)
{
	if (!block_base || base != block_base)
		return false;
	*out_bytes = block_bytes;
	*out_cached = block_is_cached;
	return true;
}
bool mt_shortage_begin(struct mt_shortage *shortage, int device UNUSED, uint64_t bytes UNUSED)
{
	(void)by_pool("room", 0);
	shortage->step = 0;
	return room_bytes > 0;
}
bool mt_shortage_next(struct mt_shortage *shortage)
{
	return shortage->step++ == 0;
}
void mt_shortage_end(const struct mt_shortage *shortage UNUSED)
{
}
void mt_pool_note_ooms(int device UNUSED, uint64_t count UNUSED)
{
	(void)by_pool("note-oom", 0);
}
uint32_t mt_pool_read_begin(int device)
{
	(void)device;
	return 0;
}

bool mt_pool_read_end(int device, uint32_t releases)
{
	(void)device;
	return releases == 0;
}

uint64_t mt_pool_withheld_bytes(int device UNUSED)
{
	return cached_bytes;
}
struct mt_block *mt_pool_context_dies(struct CUctx_st *context UNUSED)
{
	(void)by_pool("context-dies", 0);
	return NULL;
}
void mt_pool_context_died(struct CUctx_st *context UNUSED, struct mt_block *cached UNUSED,
			  bool is_over)
{
	(void)by_pool(is_over ? "context-died" : "context-lives", 0);
}
static int attached_count; /* of any context */
void mt_pool_context_attached(struct CUctx_st *context UNUSED)
{
	attached_count++;
}
bool mt_pool_detach_begin(struct CUctx_st *context UNUSED)
{
	return attached_count > 0 && attached_count-- > 0;
}
void mt_pool_detach_end(struct CUctx_st *context UNUSED, int result UNUSED)
{
}
void mt_pool_await_detaches(struct CUctx_st *context UNUSED)
{
}
void mt_pool_context_rests(struct CUctx_st *context UNUSED)
{
}

void mt_pool_context_goes_on(struct CUctx_st *context UNUSED)
{
}

void mt_pool_context_ended(struct CUctx_st *context UNUSED)
{
	(void)by_pool("context-ended", 0);
}
void mt_pool_context_made(struct CUctx_st *context, int device)
{
	char word[64];

	snprintf(word, sizeof(word), "made-%p-%d", (void *)context, device);
	(void)by_pool(word, 0);
}
void mt_pool_know(struct CUctx_st *context)
{
	char word[64];

	snprintf(word, sizeof(word), "know-%p", (void *)context);
	(void)by_pool(word, 0);
}
void mt_pool_know_current(void)
{
	knows_current++;
	errno = 99;
}
bool mt_pool_has_made(struct CUctx_st *context)
{
	return context == made_context;
}
void mt_pool_peer(struct CUctx_st *user, struct CUctx_st *owner)
{
	char word[64];

	snprintf(word, sizeof(word), "peer-%p-%p", (void *)user, (void *)owner);
	(void)by_pool(word, 0);
}
void mt_pool_green(int device)
{
	char word[32];

	snprintf(word, sizeof(word), "green-%d", device);
	(void)by_pool(word, 0);
}
bool mt_context_may_call(void)
{
	return true;
}
bool mt_pool_is_used(void)
{
	return true;
}
bool mt_capture_is_open(void)
{
	return capture_is_open;
}
void mt_pool_fence_freed(void)
{
}

bool mt_capture_is_any(void)
{
	return false;
}

void mt_capture_before_begin(void)
{
	(void)by_pool("gate-up", 0);
}
void mt_capture_after_begin(const struct mt_driver *driver UNUSED,
			    struct CUstream_st *stream UNUSED, bool is_ptsz, int result)
{
	(void)by_pool(result == 0 ? (is_ptsz ? "begun-ptsz" : "begun") : "gate-down", 0);
}
void mt_capture_after_end(const struct mt_driver *driver UNUSED, struct CUstream_st *stream UNUSED,
			  bool is_ptsz, int result UNUSED)
{
	(void)by_pool(is_ptsz ? "ended-ptsz" : "ended", 0);
}
void mt_capture_close(void)
{
	(void)by_pool("gate-up", 0);
}
void mt_capture_open(void)
{
	(void)by_pool("gate-down", 0);
}
void mt_capture_stream_dies(struct CUstream_st *stream UNUSED)
{
	(void)by_pool("stream-dies", 0);
}
void mt_capture_stream_died(struct CUstream_st *stream UNUSED, int result)
{
	(void)by_pool(result == 0 ? "stream-died" : "stream-lives", 0);
}
void mt_capture_context_dies(struct CUctx_st *context UNUSED)
{
	(void)by_pool("captures-die", 0);
}
_Atomic uint32_t mt_oom_open_count;
void mt_oom_note_success(uint64_t bytes, int device)
{
	char word[80];

	snprintf(word, sizeof(word), "success(%llu,%d)", (unsigned long long)bytes, device);
	(void)by_pool(word, 0);
}
void mt_oom_note(const char *function, uint64_t asked_bytes, int device, uint64_t free_bytes,
		 uint64_t total_bytes)
{
	char word[160];

	snprintf(word, sizeof(word), "report(%s,%llu,%d,%llu,%llu)", function,
		 (unsigned long long)asked_bytes, device, (unsigned long long)free_bytes,
		 (unsigned long long)total_bytes);
	(void)by_pool(word, 0);
}

/* ---- words of the tests ---- */

static UNUSED void answer(int first, int second)
{
	script[0] = first;
	script[1] = second;
	script_at = 0;
	backoff[0] = 0;
}

static UNUSED uint64_t live(enum mt_unpooled_kind kind, int device)
{
	struct mt_unpooled_usage usage;

	mt_unpooled_usage(device, &usage);
	return usage.live_bytes[kind];
}

static UNUSED void expect_backoff(const char *expected)
{
	cr_expect_str_eq(backoff, expected, "it was: %s", backoff);
	backoff[0] = 0;
}

#endif
