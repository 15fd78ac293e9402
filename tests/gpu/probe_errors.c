/* probe_errors.c -- what the driver answers where a program is wrong, broken, forked or ending. */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* After an odd free: is the context still good? */
static void say_health(void)
{
	uint64_t block;
	int code = cu.cuMemAlloc_v2(&block, 4096);

	say_code(code, "alloc_after_code");
	if (code == MT_CU_SUCCESS)
		say_code(cu.cuMemFree_v2(block), "free_after_code");
	say_code(cu.cuCtxSynchronize(), "synchronize_after_code");
}

static int free_in_other_context(uint64_t block)
{
	gpu_context();
	return cu.cuMemFree_v2(block);
}

static int free_without_context(uint64_t block)
{
	int code;
	struct CUctx_st *context;

	gpu_ok(cu.cuCtxGetCurrent(&context));
	gpu_ok(cu.cuCtxSetCurrent(NULL));
	code = cu.cuMemFree_v2(block);
	say_code(cu.cuMemAlloc_v2(&block, 4096), "alloc_without_context_code");
	gpu_ok(cu.cuCtxSetCurrent(context));
	return code;
}

static int free_after_destroy(void)
{
	struct CUctx_st *primary;
	struct CUctx_st *context;
	struct CUevent_st *event;
	uint64_t block;

	gpu_ok(cu.cuCtxGetCurrent(&primary));
	context = gpu_context();
	block = gpu_alloc(1 << 20);
	event = gpu_event();
	gpu_ok(cu.cuCtxDestroy_v2(context));
	gpu_ok(cu.cuCtxSetCurrent(primary));
	say_code(cu.cuEventQuery(event), "event_of_destroyed_query_code");
	say_code(cu.cuEventDestroy_v2(event), "event_of_destroyed_destroy_code");
	say_code(cu.cuCtxPushCurrent_v2(context), "push_destroyed_code");
	gpu_ok(cu.cuCtxSetCurrent(primary));
	return cu.cuMemFree_v2(block);
}

static int free_after_reset(uint64_t block)
{
	struct CUctx_st *context;
	struct CUctx_st *old;
	struct CUevent_st *event = gpu_event();
	int code;

	gpu_ok(cu.cuCtxGetCurrent(&old));
	gpu_ok(cu.cuDevicePrimaryCtxReset_v2(0));
	say_code(cu.cuMemFree_v2(block), "free_before_retain_code");
	gpu_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
	say_bool(context == old, "context_is_the_same_pointer");
	gpu_ok(cu.cuCtxSetCurrent(context));
	say_code(cu.cuEventQuery(event), "event_of_reset_query_code");
	code = cu.cuMemFree_v2(block);
	return code;
}

static int free_sync_of_async(struct CUstream_st *stream)
{
	uint64_t block;

	if (!gpu_has(cuMemAllocAsync))
		gpu_skip("no cuMemAllocAsync in this driver");
	gpu_ok(cu.cuMemAllocAsync(&block, 1 << 20, stream));
	return cu.cuMemFree_v2(block);
}

static int free_async_of_sync(uint64_t block, struct CUstream_st *stream)
{
	if (!gpu_has(cuMemFreeAsync))
		gpu_skip("no cuMemFreeAsync in this driver");
	return cu.cuMemFreeAsync(block, stream);
}

static int free_sync_of_managed(void)
{
	uint64_t block;

	if (!gpu_has(cuMemAllocManaged))
		gpu_skip("no cuMemAllocManaged in this driver");
	gpu_ok(cu.cuMemAllocManaged(&block, 1 << 20, 1));
	return cu.cuMemFree_v2(block);
}

static int free_sync_of_pinned(void)
{
	void *block;

	if (!gpu_has(cuMemHostAlloc))
		gpu_skip("no cuMemHostAlloc in this driver");
	gpu_ok(cu.cuMemHostAlloc(&block, 1 << 20, 0));
	return cu.cuMemFree_v2((uint64_t)(uintptr_t)block);
}

void probe_odd_free(const char *kind)
{
	struct CUstream_st *stream;
	uint64_t block;
	int code = -1;

	gpu_start();
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	block = gpu_alloc(1 << 20);
	if (strcmp(kind, "double") == 0) {
		gpu_ok(cu.cuMemFree_v2(block));
		code = cu.cuMemFree_v2(block);
	} else if (strcmp(kind, "interior") == 0) {
		code = cu.cuMemFree_v2(block + 4096);
		say_code(cu.cuMemFree_v2(block), "free_of_base_after_code");
	} else if (strcmp(kind, "null") == 0) {
		code = cu.cuMemFree_v2(0);
		say_code(cu.cuMemAlloc_v2(&block, 0), "alloc_of_nothing_code");
		say_code(cu.cuMemAlloc_v2(NULL, 4096), "alloc_to_nowhere_code");
	} else if (strcmp(kind, "unknown") == 0) {
		code = cu.cuMemFree_v2(0x1234567000);
	} else if (strcmp(kind, "other_context_current") == 0) {
		code = free_in_other_context(block);
	} else if (strcmp(kind, "no_context_current") == 0) {
		code = free_without_context(block);
	} else if (strcmp(kind, "after_context_destroy") == 0) {
		code = free_after_destroy();
	} else if (strcmp(kind, "after_primary_reset") == 0) {
		code = free_after_reset(block);
	} else if (strcmp(kind, "async_of_sync") == 0) {
		code = free_async_of_sync(block, stream);
	} else if (strcmp(kind, "sync_of_async") == 0) {
		code = free_sync_of_async(stream);
	} else if (strcmp(kind, "sync_of_managed") == 0) {
		code = free_sync_of_managed();
	} else if (strcmp(kind, "sync_of_pinned") == 0) {
		code = free_sync_of_pinned();
	}
	say_code(code, "code");
	say_health();
}

/* Everything that the pool calls, by name. */
static void say_codes(const char *when, struct CUctx_st *context, struct CUevent_st *event,
		      uint64_t block)
{
	struct CUctx_st *current;
	struct CUevent_st *fresh;
	size_t free_bytes;
	size_t total_bytes;
	uint64_t address;
	int number;

	say_code(cu.cuDriverGetVersion(&number), "%s_cuDriverGetVersion_code", when);
	say_code(cu.cuCtxGetCurrent(&current), "%s_cuCtxGetCurrent_code", when);
	say_code(cu.cuCtxGetDevice(&number), "%s_cuCtxGetDevice_code", when);
	say_code(cu.cuEventQuery(event), "%s_cuEventQuery_code", when);
	say_code(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes), "%s_cuMemGetInfo_code", when);
	say_code(cu.cuEventCreate(&fresh, MT_CU_EVENT_DISABLE_TIMING), "%s_cuEventCreate_code",
		 when);
	if (gpu_has(cuCtxRecordEvent))
		say_code(cu.cuCtxRecordEvent(context, event), "%s_cuCtxRecordEvent_code", when);
	say_code(cu.cuMemAlloc_v2(&address, 4096), "%s_cuMemAlloc_code", when);
	say_code(cu.cuMemFree_v2(block), "%s_cuMemFree_code", when);
	say_code(cu.cuCtxSynchronize(), "%s_cuCtxSynchronize_code", when);
	say_code(cu.cuCtxPushCurrent_v2(context), "%s_cuCtxPushCurrent_code", when);
	say_code(cu.cuCtxPopCurrent_v2(&current), "%s_cuCtxPopCurrent_code", when);
}

void probe_sticky(const char *argument)
{
	struct CUctx_st *context;
	struct CUevent_st *event;
	uint64_t block;

	(void)argument;
	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&context));
	event = gpu_event();
	block = gpu_alloc(1 << 20);
	gpu_ok(cu.cuEventRecord(event, NULL));
	say_code(gpu_fault(NULL), "launch_code");
	say_code(cu.cuCtxSynchronize(), "first_synchronize_code");
	say_codes("sticky", context, event, block);
	say_code(cu.cuCtxSetCurrent(NULL), "set_none_code");
	say_code(cu.cuDevicePrimaryCtxReset_v2(0), "reset_code");
	say_code(cu.cuDevicePrimaryCtxRetain(&context, 0), "retain_after_reset_code");
	say_code(cu.cuCtxSetCurrent(context), "set_after_reset_code");
	say_code(cu.cuMemAlloc_v2(&block, 4096), "alloc_after_reset_code");
}

/* A block of a context that is broken is freed while a good one is current. */
void probe_free_of_broken(const char *argument)
{
	struct CUctx_st *good;
	uint64_t block;

	(void)argument;
	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&good));
	gpu_context();
	gpu_kernels();
	block = gpu_alloc(1 << 20);
	say_code(gpu_fault(NULL), "launch_code");
	say_code(cu.cuCtxSynchronize(), "synchronize_code");
	gpu_ok(cu.cuCtxSetCurrent(good));
	say_health();
	say_code(cu.cuMemFree_v2(block), "free_code");
	say_health();
}

void probe_fork(const char *argument)
{
	struct CUctx_st *context;
	struct CUevent_st *event;
	uint64_t block;
	int status = 0;
	pid_t child;

	(void)argument;
	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&context));
	event = gpu_event();
	block = gpu_alloc(1 << 20);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		say_code(cu.cuInit(0), "child_cuInit_code");
		say_codes("child", context, event, block);
		_exit(0);
	}
	waitpid(child, &status, 0);
	say_number(status, "child_wait_status");
	say_code(cu.cuMemFree_v2(block), "parent_free_code");
	say_health();
}

static struct CUctx_st *exit_context;
static struct CUevent_st *exit_event;
static uint64_t exit_block[2];

/* Handlers run in the reverse order of their registration: the first of these after the driver's
 * own. */
static void after_driver(void)
{
	say_codes("after_driver", exit_context, exit_event, exit_block[0]);
}

static void before_driver(void)
{
	say_codes("before_driver", exit_context, exit_event, exit_block[1]);
}

void probe_exit(const char *argument)
{
	(void)argument;
	atexit(after_driver);
	gpu_start();
	atexit(before_driver);
	gpu_ok(cu.cuCtxGetCurrent(&exit_context));
	exit_event = gpu_event();
	exit_block[0] = gpu_alloc(1 << 20);
	exit_block[1] = gpu_alloc(1 << 20);
	exit(0);
}
