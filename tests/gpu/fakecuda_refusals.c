/* fakecuda_refusals.c -- what a driver refuses, and how memory behaves that is not there any more.
 */
#include <sys/wait.h>

#include "fakecuda_test.h"

static void every_call_before_init(void)
{
	uint64_t dptr;
	int count, version = 0;

	EXPECT(cuMemAlloc_v2(&dptr, 64), NOT_INITIALIZED);
	EXPECT(cuDeviceGetCount(&count), NOT_INITIALIZED);
	EXPECT(cuCtxSynchronize(), NOT_INITIALIZED);
	GOOD(cuDriverGetVersion(&version));
	EXPECT(version, 13000);
}

static void a_call_without_a_context(void)
{
	uint64_t dptr;
	size_t free_bytes, total;
	event_t event;

	GOOD(cuInit(0));
	EXPECT(cuMemAlloc_v2(&dptr, 64), INVALID_CONTEXT);
	EXPECT(cuMemFree_v2(64), INVALID_CONTEXT);
	EXPECT(cuMemGetInfo_v2(&free_bytes, &total), INVALID_CONTEXT);
	EXPECT(cuEventCreate(&event, 0), INVALID_CONTEXT);
}

static void a_second_free(void)
{
	uint64_t dptr;

	begin();
	dptr = take(1000);
	GOOD(cuMemFree_v2(dptr));
	EXPECT(cuMemFree_v2(dptr), INVALID_VALUE);
	EXPECT(ledger().refused_frees, 1);
	EXPECT(ledger().live_count[FAKECUDA_DEVICE], 0);
}

static void odd_frees(void)
{
	uint64_t dptr;
	char here;

	begin();
	dptr = take(4096);
	EXPECT(cuMemFree_v2(dptr + 1), INVALID_VALUE);
	EXPECT(cuMemFree_v2(12345), INVALID_VALUE);
	EXPECT(cuMemFree_v2((uint64_t)(uintptr_t)&here), INVALID_VALUE);
	GOOD(cuMemFree_v2(0));
	GOOD(cuMemFree_v2(dptr));
}

static void odd_allocations(void)
{
	uint64_t dptr = 7;

	begin();
	EXPECT(cuMemAlloc_v2(&dptr, 0), INVALID_VALUE);
	EXPECT(cuMemAlloc_v2(NULL, 64), INVALID_VALUE);
	EXPECT(cuMemAlloc_v2(&dptr, (size_t)1 << 60), OUT_OF_MEMORY);
	EXPECT(cuMemAlloc_v2(&dptr, (size_t)1100 << 20), OUT_OF_MEMORY);
	EXPECT(dptr, 7);
}

static void what_the_device_has_not(void)
{
	size_t before, after, total;
	uint64_t small[8], big, more;
	int i;

	begin();
	GOOD(cuMemGetInfo_v2(&before, &total));
	for (i = 0; i < 8; i++)
		small[i] = take(1000);
	/* Small ones share a piece of 2 MiB. */
	GOOD(cuMemGetInfo_v2(&after, &total));
	EXPECT(before - after, 2 << 20);
	big = take((size_t)1000 << 20);
	EXPECT(cuMemAlloc_v2(&more, 64 << 20), OUT_OF_MEMORY);
	GOOD(cuMemFree_v2(big));
	GOOD(cuMemAlloc_v2(&more, 64 << 20));
	for (i = 0; i < 8; i++)
		GOOD(cuMemFree_v2(small[i]));
	GOOD(cuMemFree_v2(more));
	GOOD(cuMemGetInfo_v2(&after, &total));
	EXPECT(before, after);
}

static void handles_that_are_none(void)
{
	stream_t stream, gone;
	event_t event, late;

	begin();
	gone = stream = stream_new(0);
	event = late = event_new();
	GOOD(cuStreamDestroy_v2(stream));
	GOOD(cuEventDestroy_v2(event));
	EXPECT(cuStreamSynchronize(gone), INVALID_HANDLE);
	EXPECT(cuStreamDestroy_v2(gone), INVALID_HANDLE);
	EXPECT(cuEventQuery(late), INVALID_HANDLE);
	EXPECT(cuEventDestroy_v2(late), INVALID_HANDLE);
	EXPECT(cuEventQuery((event_t)(void *)&late), INVALID_HANDLE);
	EXPECT(cuCtxPushCurrent_v2((context_t)(void *)&late), INVALID_CONTEXT);
}

static void things_of_another_context(void)
{
	context_t first, second;
	event_t event;
	stream_t stream;

	begin();
	GOOD(cuCtxGetCurrent(&first));
	event = event_new();
	stream = stream_new(0);
	GOOD(cuCtxCreate_v2(&second, 0, 0));
	EXPECT(cuCtxRecordEvent(second, event), INVALID_HANDLE);
	GOOD(cuCtxRecordEvent(first, event));
	EXPECT(sleep_on(stream, 0), INVALID_HANDLE);
	EXPECT(cuEventRecord(event, stream_new(0)), INVALID_HANDLE);
}

static void memory_of_another_context(void)
{
	context_t second;
	uint64_t dptr;

	begin();
	dptr = take(4096);
	GOOD(cuCtxCreate_v2(&second, 0, 0));
	kernels();
	GOOD(fill(NULL, dptr, 4096, 1, 0));
	EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
	EXPECT(ledger().misuses, 1);
	GOOD(cuCtxDestroy_v2(second));
	GOOD(cuCtxSynchronize());
}

static void a_context_that_is_gone(void)
{
	context_t context;
	uint64_t dptr;

	begin();
	GOOD(cuCtxCreate_v2(&context, 0, 0));
	dptr = take(4 << 20);
	GOOD(cuCtxPushCurrent_v2(context));
	GOOD(cuCtxDestroy_v2(context)); /* pops one; below it is current still */
	EXPECT(cuMemAlloc_v2(&dptr, 64), CONTEXT_IS_DESTROYED);
	EXPECT(cuCtxSetCurrent(context), INVALID_CONTEXT);
	EXPECT(ledger().live_count[FAKECUDA_DEVICE], 0);
	EXPECT(fakecuda_used_bytes(0), 0);
}

static void a_primary_context_that_nobody_retains(void)
{
	unsigned int flags;
	context_t context = begin(), again;
	int active;

	take(4096);
	GOOD(cuDevicePrimaryCtxRetain(&again, 0));
	EXPECT(context == again, 1);
	GOOD(cuDevicePrimaryCtxRelease_v2(0));
	GOOD(cuCtxSynchronize());
	GOOD(cuDevicePrimaryCtxRelease_v2(0));
	GOOD(cuDevicePrimaryCtxGetState(0, &flags, &active));
	EXPECT(active, 0);
	EXPECT(cuCtxSynchronize(), CONTEXT_IS_DESTROYED);
	EXPECT(cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
	EXPECT(ledger().live_count[FAKECUDA_DEVICE], 0);
	GOOD(cuDevicePrimaryCtxRetain(&again, 0));
	EXPECT(context == again, 1);
	GOOD(cuCtxSynchronize());
}

static void every_call_after_a_device_error(void)
{
	unsigned int delay_us = 0;
	void *params[] = {&delay_us};
	uint64_t dptr;
	context_t second;
	event_t event;

	begin();
	dptr = take(64);
	event = event_new();
	GOOD(launch(kernel_illegal, NULL, params));
	EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
	EXPECT(cuMemFree_v2(dptr), ILLEGAL_ADDRESS);
	EXPECT(cuMemAlloc_v2(&dptr, 64), ILLEGAL_ADDRESS);
	EXPECT(cuEventQuery(event), ILLEGAL_ADDRESS);
	/* Another context goes on. */
	GOOD(cuCtxCreate_v2(&second, 0, 0));
	GOOD(cuMemAlloc_v2(&dptr, 64));
}

static void every_call_once_deinitialized(void)
{
	uint64_t dptr;
	int version;

	begin();
	dptr = take(64);
	fakecuda_deinitialize();
	EXPECT(cuMemFree_v2(dptr), DEINITIALIZED);
	EXPECT(cuDriverGetVersion(&version), DEINITIALIZED);
	EXPECT(cuInit(0), DEINITIALIZED);
}

static void every_call_of_a_forked_child(void)
{
	uint64_t dptr;
	pid_t child;
	int status = -1;

	begin();
	dptr = take(64);
	GOOD(sleep_on(NULL, 1000));
	child = fork();
	if (child == 0)
		_exit(cuMemFree_v2(dptr) == NOT_INITIALIZED && cuInit(0) == NOT_INITIALIZED &&
				      ledger().contexts == 1
			      ? 0
			      : 1);
	waitpid(child, &status, 0);
	EXPECT(status, 0);
	GOOD(cuMemFree_v2(dptr));
}

static void not_a_child_of_one_that_never_initialised(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(cuInit(0));
	waitpid(child, &status, 0);
	EXPECT(status, 0);
}

static _Atomic int called_with;

static void call_driver(void *result)
{
	uint64_t dptr;

	*(_Atomic int *)result = cuMemAlloc_v2(&dptr, 64);
}

static void calls_in_a_host_function(void)
{
	begin();
	GOOD(cuLaunchHostFunc(NULL, call_driver, &called_with));
	GOOD(cuCtxSynchronize());
	EXPECT(called_with, NOT_PERMITTED);
}

/* ---- memory that is gone; the first three end by SIGSEGV ---- */

static void touching_freed_memory_faults(void)
{
	uint64_t dptr;

	begin();
	dptr = take(64);
	EXPECT(byte_at(dptr), 0);
	GOOD(cuMemFree_v2(dptr));
	printf("still here\n");
	fflush(stdout);
	byte_at(dptr);
	_exit(3);
}

static void running_over_a_block_faults(void)
{
	uint64_t dptr;

	begin();
	dptr = take(512);
	EXPECT(byte_at(dptr + 511), 0);
	printf("still here\n");
	fflush(stdout);
	byte_at(dptr + 512);
	_exit(3);
}

static void touching_a_dead_contexts_memory_faults(void)
{
	context_t context;
	uint64_t dptr;

	begin();
	GOOD(cuCtxCreate_v2(&context, 0, 0));
	dptr = take(4 << 20);
	EXPECT(byte_at(dptr), 0);
	GOOD(cuCtxDestroy_v2(context));
	printf("still here\n");
	fflush(stdout);
	byte_at(dptr);
	_exit(3);
}

static void work_on_freed_memory_is_an_error(void)
{
	stream_t stream;
	uint64_t dptr;

	begin();
	stream = stream_new(NON_BLOCKING);
	dptr = take(4096);
	GOOD(fill(stream, dptr, 4096, 9, 20000));
	GOOD(cuMemFree_v2(dptr)); /* does not wait for a non-blocking stream */
	EXPECT(cuStreamSynchronize(stream), ILLEGAL_ADDRESS);
	EXPECT(ledger().misuses, 1);
}

static void freed_addresses_rest(void)
{
	uint64_t dptr;

	begin();
	dptr = take(4096);
	GOOD(cuMemFree_v2(dptr));
	EXPECT(take(4096) == dptr, getenv("FAKECUDA_REUSE") != NULL);
}

static void small_blocks_are_aligned(void)
{
	size_t bytes;

	begin();
	for (bytes = 1; bytes < 20000; bytes = bytes * 3 + 1)
		EXPECT(take(bytes) % 512, 0);
	EXPECT(take(3 << 20) % (2 << 20), 0);
}

#define B(name)                                                                                    \
	{                                                                                          \
#name, name                                                                        \
	}
static const struct behaviour behaviours[] = {
	B(every_call_before_init),
	B(a_call_without_a_context),
	B(a_second_free),
	B(odd_frees),
	B(odd_allocations),
	B(what_the_device_has_not),
	B(handles_that_are_none),
	B(things_of_another_context),
	B(memory_of_another_context),
	B(a_context_that_is_gone),
	B(a_primary_context_that_nobody_retains),
	B(every_call_after_a_device_error),
	B(every_call_once_deinitialized),
	B(every_call_of_a_forked_child),
	B(not_a_child_of_one_that_never_initialised),
	B(calls_in_a_host_function),
	B(work_on_freed_memory_is_an_error),
	B(freed_addresses_rest),
	B(small_blocks_are_aligned),
	B(touching_freed_memory_faults),
	B(running_over_a_block_faults),
	B(touching_a_dead_contexts_memory_faults),
};

int main(int argc, char **argv)
{
	return run_one(behaviours, sizeof(behaviours) / sizeof(behaviours[0]),
		       argc > 1 ? argv[1] : NULL);
}
