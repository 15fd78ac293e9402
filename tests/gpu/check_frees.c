/* check_frees.c -- odd frees, all families of allocations, ends of contexts, other processes. */
#include "checks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

static void expect_healthy(void)
{
	uint64_t block = gpu_alloc(BYTES);

	gpu_ok(cu.cuMemsetD32_v2(block, 0x55555555, BYTES / 4));
	gpu_expect(gpu_differing(block, BYTES, 0x55) == 0,
		   "a fresh block does not hold what was written");
	gpu_ok(cu.cuMemFree_v2(block));
}

void check_double_free(void)
{
	uint64_t block;
	uint64_t one;
	uint64_t two;
	int code;

	gpu_start();
	block = gpu_alloc(BYTES);
	gpu_ok(cu.cuMemFree_v2(block));
	code = cu.cuMemFree_v2(block);
	gpu_expect(code == MT_CU_INVALID_VALUE, "the second free answers %d", code);
	one = gpu_alloc(BYTES);
	two = gpu_alloc(BYTES);
	gpu_expect(one != two, "the same block was handed out twice");
	gpu_ok(cu.cuMemFree_v2(one));
	gpu_ok(cu.cuMemFree_v2(two));
	expect_healthy();
}

void check_unknown_free(void)
{
	uint64_t block;

	gpu_start();
	block = gpu_alloc(BYTES);
	gpu_expect(cu.cuMemFree_v2(0x1234567000) != MT_CU_SUCCESS, "an unknown pointer was freed");
	gpu_ok(cu.cuMemFree_v2(0));
	gpu_expect(cu.cuMemAlloc_v2(&block, 0) == MT_CU_INVALID_VALUE,
		   "an allocation of nothing succeeds");
	gpu_ok(cu.cuMemFree_v2(block));
	expect_healthy();
}

/* ---- every family of allocations, there and back ---- */

static void vmm_there_and_back(void)
{
	struct mt_cu_allocation_prop prop = {.type = 1, .location = {1, 0}};
	const struct gpu_access access = {{1, 0}, 3};
	unsigned long long handle;
	uint64_t address;
	size_t bytes = 2 << 20;

	gpu_ok(cu.cuMemGetAllocationGranularity(&bytes, &prop, 0));
	gpu_ok(cu.cuMemCreate(&handle, bytes, &prop, 0));
	gpu_ok(cu.cuMemAddressReserve(&address, bytes, 0, 0, 0));
	gpu_ok(cu.cuMemMap(address, bytes, 0, handle, 0));
	gpu_ok(cu.cuMemSetAccess(address, bytes, &access, 1));
	gpu_ok(cu.cuMemsetD32_v2(address, 0x66666666, bytes / 4));
	gpu_expect(gpu_differing(address, bytes, 0x66) == 0,
		   "mapped memory does not hold what was written");
	gpu_ok(cu.cuMemUnmap(address, bytes));
	gpu_ok(cu.cuMemAddressFree(address, bytes));
	gpu_ok(cu.cuMemRelease(handle));
}

static void arrays_there_and_back(void)
{
	struct mt_cu_array_descriptor flat = {256, 256, 1, 4};
	struct mt_cu_array3d_descriptor deep = {64, 64, 8, 1, 4, 0};
	struct CUarray_st *array;
	struct CUmipmappedArray_st *mipmapped;

	gpu_ok(cu.cuArrayCreate_v2(&array, &flat));
	gpu_ok(cu.cuArrayDestroy(array));
	gpu_ok(cu.cuArray3DCreate_v2(&array, &deep));
	gpu_ok(cu.cuArrayDestroy(array));
	gpu_ok(cu.cuMipmappedArrayCreate(&mipmapped, &deep, 3));
	gpu_ok(cu.cuMipmappedArrayDestroy(mipmapped));
}

static void host_there_and_back(void)
{
	void *page_locked;
	void *own = aligned_alloc(4096, BYTES);

	gpu_ok(cu.cuMemHostAlloc(&page_locked, BYTES, 0));
	memset(page_locked, 1, BYTES);
	gpu_ok(cu.cuMemFreeHost(page_locked));
	gpu_ok(cu.cuMemAllocHost_v2(&page_locked, BYTES));
	gpu_ok(cu.cuMemFreeHost(page_locked));
	gpu_ok(cu.cuMemHostRegister_v2(own, BYTES, 0));
	gpu_ok(cu.cuMemHostUnregister(own));
	free(own);
}

void check_families(void)
{
	struct CUstream_st *stream;
	uint64_t block;
	size_t pitch;

	gpu_start();
	if (!gpu_has(cuMemAllocPitch_v2) || !gpu_has(cuMemAllocManaged) ||
	    !gpu_has(cuArrayCreate_v2) || !gpu_has(cuMemHostAlloc))
		gpu_skip("this driver lacks one of the old families");
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	gpu_ok(cu.cuMemAllocPitch_v2(&block, &pitch, 1000, 100, 4));
	gpu_ok(cu.cuMemFree_v2(block));
	gpu_ok(cu.cuMemAllocManaged(&block, BYTES, 1));
	gpu_ok(cu.cuMemFree_v2(block));
	if (gpu_has(cuMemAllocAsync)) {
		gpu_ok(cu.cuMemAllocAsync(&block, BYTES, stream));
		gpu_ok(gpu_fill(stream, block, BYTES, 1));
		gpu_ok(cu.cuMemFreeAsync(block, stream));
		gpu_ok(cu.cuMemAllocAsync(&block, BYTES, stream));
		gpu_ok(cu.cuStreamSynchronize(stream));
		gpu_ok(cu.cuMemFree_v2(block));
		gpu_ok(cu.cuMemAllocAsync_ptsz(&block, BYTES, GPU_STREAM_PER_THREAD));
		gpu_ok(cu.cuMemFreeAsync_ptsz(block, GPU_STREAM_PER_THREAD));
	}
	if (gpu_has(cuMemCreate))
		vmm_there_and_back();
	arrays_there_and_back();
	host_there_and_back();
	expect_healthy();
}

void check_address_range(void)
{
	static const size_t sizes[] = {1, 100, 512, 1000, 1 << 20, (3 << 20) + 5};
	uint64_t base;
	size_t bytes;

	gpu_start();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uint64_t block = gpu_alloc(sizes[i]);

		gpu_expect((block & 255) == 0, "a block at %#llx is not aligned",
			   (unsigned long long)block);
		gpu_ok(cu.cuMemGetAddressRange_v2(&base, &bytes, block));
		gpu_expect(base == block, "the range of a block begins elsewhere");
		gpu_expect(!is_pooling() || bytes == sizes[i],
			   "%zu bytes were asked for, the range has %zu", sizes[i], bytes);
		gpu_ok(cu.cuMemFree_v2(block));
		gpu_expect(cu.cuMemGetAddressRange_v2(&base, &bytes, block) != MT_CU_SUCCESS ||
				   base != block,
			   "a freed block still has a range");
	}
}

/* ---- ends of contexts ---- */

void check_context_destroyed(void)
{
	struct CUctx_st *primary;

	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&primary));
	for (int i = 0; i < 5; i++) {
		struct CUctx_st *context = gpu_context();
		uint64_t live = gpu_alloc(BYTES);
		uint64_t idle = gpu_alloc(BYTES);

		gpu_ok(cu.cuMemFree_v2(idle));
		gpu_ok(cu.cuCtxDestroy_v2(context));
		gpu_ok(cu.cuCtxSetCurrent(primary));
		gpu_expect(cu.cuMemFree_v2(live) != MT_CU_SUCCESS, "a block outlived its context");
		expect_healthy();
	}
}

void check_primary_reset(void)
{
	struct CUctx_st *context;

	gpu_start();
	for (int i = 0; i < 3; i++) {
		uint64_t idle = gpu_alloc(BYTES);

		gpu_alloc(BYTES);
		gpu_ok(cu.cuMemFree_v2(idle));
		gpu_ok(cu.cuDevicePrimaryCtxReset_v2(0));
		gpu_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
		gpu_ok(cu.cuCtxSetCurrent(context));
		expect_healthy();
	}
}

void check_sticky(void)
{
	uint64_t live;
	uint64_t idle;
	uint64_t fresh;
	int code;

	gpu_start();
	live = gpu_alloc(BYTES);
	idle = gpu_alloc(BYTES);
	gpu_ok(cu.cuMemFree_v2(idle));
	gpu_fault(NULL);
	code = cu.cuCtxSynchronize();
	gpu_expect(code != MT_CU_SUCCESS, "a wild write went unnoticed");
	/* A pool may learn of it only by its next call of the driver: an allocation that no cached
	 * block serves is one. */
	gpu_expect(cu.cuMemAlloc_v2(&fresh, 3 * BYTES) == code,
		   "a new allocation in a broken context does not say so");
	gpu_expect(cu.cuMemFree_v2(live) == code, "a free in a broken context does not say so");
	gpu_expect(cu.cuMemAlloc_v2(&fresh, BYTES) == code,
		   "an allocation in a broken context does not say so");
	exit(0);
}

/* ---- other processes ---- */

static void in_child(uint64_t block)
{
	uint64_t fresh;

	alarm(20);
	if (cu.cuMemAlloc_v2(&fresh, BYTES) == MT_CU_SUCCESS)
		_exit(2);
	if (cu.cuMemFree_v2(block) == MT_CU_SUCCESS)
		_exit(3);
	raise(SIGUSR1);
	exit(0);
}

/* The child is answered errors, ends by itself through its exit handlers, and the parent never
 * notices. */
void check_fork(void)
{
	uint64_t live;
	uint64_t idle;
	int status;
	pid_t child;

	gpu_start();
	live = gpu_alloc(BYTES);
	idle = gpu_alloc(BYTES);
	gpu_ok(cu.cuMemsetD32_v2(live, 0x77777777, BYTES / 4));
	gpu_ok(cu.cuMemFree_v2(idle));
	/* Without the shim nobody takes the signal. */
	if (!gpu_has_shim())
		signal(SIGUSR1, SIG_IGN);
	child = fork();
	if (child == 0)
		in_child(live);
	gpu_expect(waitpid(child, &status, 0) == child, "the child was lost");
	gpu_expect(status == 0,
		   "the child ended with status %#x (2 and 3 in its second byte: a CUDA call of it "
		   "succeeded)",
		   status);
	gpu_expect(gpu_differing(live, BYTES, 0x77) == 0, "the parent's block has changed");
	expect_healthy();
}

/* The other process gets the handle and fills the block. */
void role_ipc(void)
{
	struct mt_cu_ipc_handle handle;
	uint64_t block;

	gpu_start();
	gpu_expect(fread(&handle, sizeof handle, 1, stdin) == 1, "no handle came");
	gpu_ok(cu.cuIpcOpenMemHandle_v2(&block, handle, 1));
	gpu_ok(cu.cuMemsetD32_v2(block, 0x18181818, BYTES / 4));
	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(cu.cuIpcCloseMemHandle(block));
}

void check_ipc(void)
{
	struct mt_cu_ipc_handle handle;
	uint64_t block;
	uint64_t fresh;
	FILE *other;
	char command[512] = "";
	int code;

	gpu_start();
	/* Not the first block of its size: one that the pool has had in its cache. */
	block = gpu_alloc(BYTES);
	gpu_ok(cu.cuMemFree_v2(block));
	gpu_ok(cu.cuCtxSynchronize());
	block = gpu_alloc(BYTES);
	gpu_ok(cu.cuMemsetD32_v2(block, 0, BYTES / 4));
	code = cu.cuIpcGetMemHandle(&handle, block);
	if (code == MT_CU_NOT_SUPPORTED || code == GPU_MISSING)
		gpu_skip("no IPC on this device");
	gpu_expect(code == MT_CU_SUCCESS, "cuIpcGetMemHandle answers %d", code);
	gpu_ok(cu.cuCtxSynchronize());
	gpu_expect(readlink("/proc/self/exe", command, 400) > 0, "no /proc");
	strcat(command, " --role ipc");
	other = popen(command, "w");
	gpu_expect(other && fwrite(&handle, sizeof handle, 1, other) == 1,
		   "the other process does not start");
	code = pclose(other);
	if (WIFEXITED(code) && WEXITSTATUS(code) == GPU_SKIPPED)
		gpu_skip("the other process could not use the GPU");
	gpu_expect(code == 0, "the other process ended with status %#x", code);
	gpu_expect(gpu_differing(block, BYTES, 0x18) == 0,
		   "what the other process wrote is not there");
	/* What another process has known is never handed out again. */
	gpu_ok(cu.cuMemFree_v2(block));
	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(cu.cuMemAlloc_v2(&fresh, BYTES));
	gpu_ok(cu.cuMemsetD32_v2(fresh, 0x19191919, BYTES / 4));
	gpu_expect(gpu_differing(fresh, BYTES, 0x19) == 0,
		   "a fresh block does not hold what was written");
}
