/* fakecuda_memory.c -- the kinds of memory of the stand-in for libcuda, its peers and green
 * contexts, and other processes. */
#include <sys/wait.h>

#include "fakecuda_test.h"

static int is_managed(uint64_t dptr)
{
	unsigned int answer = ~0u; /* all four bytes are written */

	GOOD(cuPointerGetAttribute(&answer, 8, dptr));
	return (int)answer;
}

static void each_kind_is_in_the_ledger_until_it_is_freed(void)
{
	const struct fake_array_desc flat = {100, 10, 0x20, 4};
	const struct fake_array3d_desc deep = {64, 64, 4, 0x01, 1, 0};
	struct CUarray_st *array, *array3d;
	struct CUmipmappedArray_st *mipmap;
	uint64_t pitched, managed;
	void *pinned, *other;
	static char mine[8192];
	size_t pitch;
	int kind;

	begin();
	GOOD(cuMemAllocPitch_v2(&pitched, &pitch, 100, 10, 4));
	EXPECT(pitch, 512);
	GOOD(cuMemAllocManaged(&managed, 3000, 1));
	EXPECT(is_managed(managed), 1);
	EXPECT(is_managed(pitched), 0);
	GOOD(cuArrayCreate_v2(&array, &flat));
	GOOD(cuArray3DCreate_v2(&array3d, &deep));
	GOOD(cuMipmappedArrayCreate(&mipmap, &deep, 2));
	GOOD(cuMemHostAlloc(&pinned, 1000, 0));
	GOOD(cuMemAllocHost_v2(&other, 1000));
	GOOD(cuMemHostRegister_v2(mine, sizeof(mine), 0));
	EXPECT(cuMemHostRegister_v2(mine + 100, 10, 0), HOST_MEMORY_ALREADY_REGISTERED);
	EXPECT(ledger().live_bytes[FAKECUDA_PITCH], 5120);
	EXPECT(ledger().live_bytes[FAKECUDA_MANAGED], 3000);
	EXPECT(ledger().live_bytes[FAKECUDA_ARRAY],
	       100 * 10 * 16 + 64 * 64 * 4 + (64 * 64 * 4 + 32 * 32 * 2));
	EXPECT(ledger().live_bytes[FAKECUDA_PINNED], 2000);
	EXPECT(ledger().live_bytes[FAKECUDA_REGISTERED], sizeof(mine));
	GOOD(cuMemFree_v2(pitched));
	GOOD(cuMemFree_v2(managed));
	GOOD(cuArrayDestroy(array));
	EXPECT(cuArrayDestroy(array), INVALID_HANDLE);
	GOOD(cuArrayDestroy(array3d));
	GOOD(cuMipmappedArrayDestroy(mipmap));
	GOOD(cuMemFreeHost(pinned));
	EXPECT(cuMemFreeHost(pinned), INVALID_VALUE);
	GOOD(cuMemFreeHost(other));
	GOOD(cuMemHostUnregister(mine));
	EXPECT(cuMemHostUnregister(mine), HOST_MEMORY_NOT_REGISTERED);
	for (kind = 0; kind < FAKECUDA_KIND_COUNT; kind++)
		EXPECT(ledger().live_bytes[kind] + ledger().live_count[kind], 0);
	EXPECT(ledger().charged_bytes, 0);
}

static void pointers_answer_for_what_was_asked(void)
{
	int attributes[] = {2, 11, 12};
	unsigned int type = 0;
	uint64_t dptr, base = 1, start = 1;
	size_t bytes = 1, range = 1;
	void *data[] = {&type, &start, &range};
	context_t context = begin(), owner = NULL;

	dptr = take(1000);
	GOOD(cuMemGetAddressRange_v2(&base, &bytes, dptr + 999));
	EXPECT(base == dptr && bytes == 1000, 1);
	EXPECT(cuMemGetAddressRange_v2(&base, &bytes, dptr + 1000), NOT_FOUND);
	GOOD(cuPointerGetAttribute(&owner, 1, dptr + 5));
	EXPECT(owner == context, 1);
	GOOD(cuPointerGetAttributes(3, attributes, data, dptr + 5));
	EXPECT(type == 2 && start == dptr && range == 1000, 1);
	GOOD(cuMemFree_v2(dptr));
	EXPECT(cuPointerGetAttribute(&owner, 1, dptr), INVALID_VALUE);
	GOOD(cuPointerGetAttributes(3, attributes, data, dptr));
	EXPECT(type == 0 && start == 0 && range == 0, 1);
	dptr = take(1000);
	GOOD(cuCtxSetCurrent(NULL));
	GOOD(cuPointerGetAttribute(&owner, 1, dptr));
	GOOD(cuPointerGetAttributes(3, attributes, data, dptr));
	EXPECT(owner == context && range == 1000, 1);
}

static void copies_carry_bytes_of_every_direction(void)
{
	const struct fake_copy2d rows = {.src_type = 2,
					 .dst_type = 1,
					 .src_pitch = 512,
					 .dst_pitch = 10,
					 .width = 10,
					 .height = 3};
	struct fake_copy2d copy = rows;
	unsigned char here[1000], back[1000] = {0};
	uint64_t first, second;
	stream_t stream;
	int i;

	begin();
	stream = stream_new(NON_BLOCKING);
	first = take(2048);
	second = take(1000);
	for (i = 0; i < 1000; i++)
		here[i] = (unsigned char)i;
	GOOD(cuMemcpyHtoD_v2(first, here, 1000));
	GOOD(cuMemcpyDtoD_v2(second, first, 1000));
	GOOD(cuMemcpyDtoH_v2(back, second, 1000));
	EXPECT(memcmp(here, back, 1000), 0);
	/* From pageable memory the bytes are taken at the call. */
	GOOD(sleep_on(stream, 20000));
	GOOD(cuMemcpyHtoDAsync_v2(first, here, 1000, stream));
	memset(here, 0, sizeof(here));
	GOOD(cuMemcpyDtoHAsync_v2(back, first, 1000, stream));
	EXPECT(back[7], 7);
	GOOD(cuMemsetD32_v2(first, 0x01020304, 100));
	GOOD(cuMemsetD2D8_v2(first, 512, 9, 10, 3));
	copy.src_device = first;
	copy.dst_host = back;
	GOOD(cuMemcpy2D_v2(&copy));
	EXPECT(back[0] == 9 && back[29] == 9 && back[30] == 30, 1);
	EXPECT(cuMemcpyHtoD_v2(first, here, 4096), INVALID_VALUE);
	GOOD(cuMemFree_v2(second));
	EXPECT(cuMemcpyDtoH_v2(back, second, 1), INVALID_VALUE);
}

static uint64_t pool_says(struct CUmemPoolHandle_st *pool, int attribute)
{
	uint64_t value = 0;

	GOOD(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static void an_async_pool_keeps_what_is_freed_until_trimmed(void)
{
	uint64_t dptr, again, other, threshold = UINT64_MAX;
	struct CUmemPoolHandle_st *pool;
	stream_t first, second;

	begin();
	first = stream_new(NON_BLOCKING);
	second = stream_new(NON_BLOCKING);
	GOOD(cuDeviceGetDefaultMemPool(&pool, 0));
	GOOD(cuMemPoolSetAttribute(pool, 4, &threshold));
	GOOD(cuMemAllocAsync(&dptr, 4 << 20, first));
	EXPECT(pool_says(pool, 7), 4 << 20);
	GOOD(fill(first, dptr, 64, 1, 60000));
	GOOD(cuMemFreeAsync(dptr, first));
	EXPECT(cuMemFreeAsync(dptr, first), INVALID_VALUE);
	EXPECT(pool_says(pool, 7), 0);
	EXPECT(pool_says(pool, 5), 4 << 20);
	/* To another stream only when the work before the free is done, to its own at once. */
	GOOD(cuMemAllocAsync(&other, 4 << 20, second));
	EXPECT(other == dptr, 0);
	GOOD(cuMemAllocAsync(&again, 4 << 20, first));
	EXPECT(again == dptr, 1);
	GOOD(cuMemFreeAsync(again, first));
	GOOD(cuMemFreeAsync(other, second));
	GOOD(cuCtxSynchronize());
	EXPECT(fakecuda_used_bytes(0), 8 << 20);
	GOOD(cuMemPoolTrimTo(pool, 4 << 20));
	EXPECT(fakecuda_used_bytes(0), 4 << 20);
	GOOD(cuMemPoolTrimTo(pool, 0));
	EXPECT(fakecuda_used_bytes(0), 0);
	EXPECT(ledger().live_count[FAKECUDA_ASYNC], 0);
}

static void a_wait_gives_back_what_is_above_the_threshold(void)
{
	stream_t stream;
	uint64_t dptr;

	begin();
	stream = stream_new(NON_BLOCKING);
	GOOD(cuMemAllocAsync(&dptr, 4 << 20, stream));
	GOOD(cuMemFreeAsync(dptr, stream));
	EXPECT(fakecuda_used_bytes(0), 4 << 20);
	GOOD(cuStreamSynchronize(stream));
	EXPECT(fakecuda_used_bytes(0), 0);
	/* Memory of cuMemAlloc is freed in the stream's order as well. */
	dptr = take(4 << 20);
	GOOD(fill(stream, dptr, 64, 1, 20000));
	GOOD(cuMemFreeAsync(dptr, stream));
	EXPECT(ledger().live_count[FAKECUDA_DEVICE], 1);
	EXPECT(cuMemFree_v2(dptr), INVALID_VALUE);
	GOOD(cuStreamSynchronize(stream));
	EXPECT(ledger().live_count[FAKECUDA_DEVICE], 0);
}

static void memory_and_addresses_come_apart(void)
{
	const struct fake_allocation_prop prop = {.type = 1, .location = {1, 0}};
	const struct fake_access access = {{1, 0}, 3};
	unsigned long long handle;
	uint64_t dptr;
	size_t granularity = 0;

	begin();
	GOOD(cuMemGetAllocationGranularity(&granularity, &prop, 0));
	EXPECT(granularity, 2 << 20);
	EXPECT(cuMemCreate(&handle, 1000, &prop, 0), INVALID_VALUE);
	EXPECT(cuMemCreate(&handle, (size_t)2048 << 20, &prop, 0), OUT_OF_MEMORY);
	GOOD(cuMemCreate(&handle, 4 << 20, &prop, 0));
	GOOD(cuMemAddressReserve(&dptr, 8 << 20, 0, 0, 0));
	GOOD(cuMemMap(dptr, 4 << 20, 0, handle, 0));
	EXPECT(cuMemsetD8_v2(dptr, 1, 64), INVALID_VALUE); /* no access yet */
	GOOD(cuMemSetAccess(dptr, 4 << 20, &access, 1));
	GOOD(cuMemsetD8_v2(dptr, 1, 4 << 20));
	EXPECT(cuMemsetD8_v2(dptr + (4 << 20), 1, 1), INVALID_VALUE);
	GOOD(cuCtxSynchronize());
	GOOD(cuMemRelease(handle));
	EXPECT(cuMemRelease(handle), INVALID_VALUE);
	EXPECT(ledger().live_bytes[FAKECUDA_VMM], 4 << 20); /* its mapping holds it */
	EXPECT(cuMemAddressFree(dptr, 8 << 20), INVALID_VALUE);
	GOOD(cuMemUnmap(dptr, 4 << 20));
	EXPECT(ledger().live_bytes[FAKECUDA_VMM], 0);
	GOOD(cuMemAddressFree(dptr, 8 << 20));
	EXPECT(ledger().charged_bytes, 0);
}

static void a_peers_memory_is_reached_once_enabled(void)
{
	context_t first = begin(), second;
	uint64_t theirs;
	int can = 0;

	GOOD(cuDeviceCanAccessPeer(&can, 0, 1));
	EXPECT(can, 1);
	GOOD(cuCtxCreate_v2(&second, 0, 1));
	theirs = take(4096);
	GOOD(cuCtxSetCurrent(first));
	EXPECT(cuCtxDisablePeerAccess(second), PEER_ACCESS_NOT_ENABLED);
	GOOD(cuCtxEnablePeerAccess(second, 0));
	EXPECT(cuCtxEnablePeerAccess(second, 0), PEER_ACCESS_ALREADY_ENABLED);
	EXPECT(cuCtxEnablePeerAccess(first, 0), INVALID_CONTEXT);
	GOOD(fill(NULL, theirs, 4096, 4, 0));
	GOOD(cuCtxSynchronize());
	EXPECT(byte_at(theirs), 4);
	GOOD(cuCtxDisablePeerAccess(second));
	GOOD(fill(NULL, theirs, 4096, 5, 0));
	EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
}

static void a_green_contexts_event_sees_only_itself(void)
{
	const int seen = getenv("FAKECUDA_GREEN_SEEN") == NULL;
	struct CUdevResourceDesc_st *desc;
	struct fake_resource resource;
	context_t primary = begin(), context;
	event_t whole = event_new(), part;
	stream_t inside, outside = stream_new(NON_BLOCKING);
	struct CUgreenCtx_st *green;

	GOOD(cuDeviceGetDevResource(0, &resource, 1));
	GOOD(cuDevResourceGenerateDesc(&desc, &resource, 1));
	GOOD(cuGreenCtxCreate(&green, desc, 0, 1));
	GOOD(cuCtxFromGreenCtx(&context, green));
	GOOD(cuGreenCtxStreamCreate(&inside, green, NON_BLOCKING, 0));
	GOOD(cuCtxPushCurrent_v2(context));
	part = event_new();
	GOOD(sleep_on(inside, 60000));
	GOOD(cuCtxRecordEvent(primary, whole));
	EXPECT(cuEventQuery(whole), seen ? NOT_READY : OK);
	GOOD(cuStreamSynchronize(inside));
	GOOD(cuCtxPopCurrent_v2(NULL));
	GOOD(sleep_on(outside, 60000));
	GOOD(cuCtxRecordEvent(context, part));
	GOOD(cuEventQuery(part));
	GOOD(cuGreenCtxDestroy(green));
	GOOD(cuCtxSynchronize());
}

static void memory_is_shared_with_another_process(void)
{
	struct fake_ipc_handle handle;
	uint64_t dptr;
	int way[2], status = -1;
	pid_t child;

	/* The child starts first: one that is forked from a process that uses the driver may not
	 * use it. */
	if (pipe(way) != 0)
		exit(2);
	child = fork();
	if (child == 0) {
		if (read(way[0], &handle, sizeof(handle)) != sizeof(handle))
			_exit(2);
		begin();
		GOOD(cuIpcOpenMemHandle_v2(&dptr, handle, 1));
		EXPECT(byte_at(dptr), 6);
		GOOD(cuMemsetD8_v2(dptr, 7, 1000));
		GOOD(cuCtxSynchronize());
		EXPECT(cuMemFree_v2(dptr), INVALID_VALUE);
		GOOD(cuIpcCloseMemHandle(dptr));
		EXPECT(cuIpcCloseMemHandle(dptr), INVALID_VALUE);
		fflush(stdout);
		_exit(failures ? 1 : 0);
	}
	begin();
	dptr = take(1000);
	GOOD(fill(NULL, dptr, 1000, 6, 20000));
	GOOD(cuIpcGetMemHandle(&handle, dptr));
	EXPECT(cuIpcOpenMemHandle_v2(&dptr, handle, 1), INVALID_CONTEXT);
	if (write(way[1], &handle, sizeof(handle)) != sizeof(handle))
		exit(2);
	waitpid(child, &status, 0);
	EXPECT(status, 0);
	EXPECT(byte_at(dptr), 7);
	GOOD(cuMemFree_v2(dptr));
}

static void what_was_ordered_fails_and_waits(void)
{
	uint64_t dptr;
	struct timespec from, to;

	/* FAKECUDA_FAIL=cuMemAlloc_v2:2=2, FAKECUDA_LATENCY_US=cuMemFree_v2=30000 */
	begin();
	dptr = take(64);
	EXPECT(cuMemAlloc_v2(&dptr, 64), OUT_OF_MEMORY);
	GOOD(cuMemAlloc_v2(&dptr, 64));
	clock_gettime(CLOCK_MONOTONIC, &from);
	GOOD(cuMemFree_v2(dptr));
	clock_gettime(CLOCK_MONOTONIC, &to);
	EXPECT((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000 >= 30, 1);
	EXPECT(fakecuda_calls("cuMemAlloc_v2"), 3);
	EXPECT(fakecuda_fail("cuEventCreate", 0, 700), 0);
	EXPECT(cuEventCreate(NULL, 0), 700);
	EXPECT(cuEventCreate(NULL, 0), 700);
	EXPECT(fakecuda_fail("cuEventCreate", 0, 0), 0);
	EXPECT(cuEventCreate(NULL, 0), INVALID_VALUE);
	EXPECT(fakecuda_fail("cuNothing", 1, 2), -1);
}

#define B(name)                                                                                    \
	{                                                                                          \
#name, name                                                                        \
	}
static const struct behaviour behaviours[] = {
	B(each_kind_is_in_the_ledger_until_it_is_freed),
	B(pointers_answer_for_what_was_asked),
	B(copies_carry_bytes_of_every_direction),
	B(an_async_pool_keeps_what_is_freed_until_trimmed),
	B(a_wait_gives_back_what_is_above_the_threshold),
	B(memory_and_addresses_come_apart),
	B(a_peers_memory_is_reached_once_enabled),
	B(a_green_contexts_event_sees_only_itself),
	B(memory_is_shared_with_another_process),
	B(what_was_ordered_fails_and_waits),
};

int main(int argc, char **argv)
{
	return run_one(behaviours, sizeof(behaviours) / sizeof(behaviours[0]),
		       argc > 1 ? argv[1] : NULL);
}
