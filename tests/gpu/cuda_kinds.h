/* cuda_kinds.h -- every way to allocate, as a table: a program that goes through it has gone
 * through every allocating wrapper. */
#ifndef CUDA_KINDS_H
#define CUDA_KINDS_H

#include "cuda_entries.h"

struct kind {
	const char *name; /* of the driver's function */
	int (*make)(uint64_t *key, size_t bytes);
	int (*drop)(uint64_t key);
	bool is_device; /* of the device's memory */
};

static int make_plain(uint64_t *key, size_t bytes)
{
	return cuMemAlloc_v2(key, bytes);
}
static int make_pitch(uint64_t *key, size_t bytes)
{
	size_t pitch = 0;

	return cuMemAllocPitch_v2(key, &pitch, 4096, bytes / 4096, 4);
}
static int make_managed(uint64_t *key, size_t bytes)
{
	return cuMemAllocManaged(key, bytes, 1);
}
static int drop_plain(uint64_t key)
{
	return cuMemFree_v2(key);
}
static int make_async(uint64_t *key, size_t bytes)
{
	return cuMemAllocAsync(key, bytes, NULL);
}
static int make_async_ptsz(uint64_t *key, size_t bytes)
{
	return cuMemAllocAsync_ptsz(key, bytes, NULL);
}
static int make_pool(uint64_t *key, size_t bytes)
{
	struct CUmemPoolHandle_st *pool = NULL;
	int result = cuDeviceGetDefaultMemPool(&pool, 0);

	return result ? result : cuMemAllocFromPoolAsync(key, bytes, pool, NULL);
}
static int make_pool_ptsz(uint64_t *key, size_t bytes)
{
	struct CUmemPoolHandle_st *pool = NULL;
	int result = cuDeviceGetDefaultMemPool(&pool, 0);

	return result ? result : cuMemAllocFromPoolAsync_ptsz(key, bytes, pool, NULL);
}
static int after_stream(int result)
{
	struct CUmemPoolHandle_st *pool = NULL;

	(void)cuCtxSynchronize();
	if (cuDeviceGetDefaultMemPool(&pool, 0) == 0)
		(void)cuMemPoolTrimTo(pool, 0);
	return result;
}
static int drop_async(uint64_t key)
{
	return after_stream(cuMemFreeAsync(key, NULL));
}
static int drop_async_ptsz(uint64_t key)
{
	return after_stream(cuMemFreeAsync_ptsz(key, NULL));
}
static int make_vmm(uint64_t *key, size_t bytes)
{
	const struct mt_cu_allocation_prop prop = {.type = 1, .location = {.type = 1, .id = 0}};
	unsigned long long handle = 0;
	int result = cuMemCreate(&handle, bytes, &prop, 0);

	*key = handle;
	return result;
}
static int drop_vmm(uint64_t key)
{
	return cuMemRelease(key);
}
static int make_array(uint64_t *key, size_t bytes)
{
	const struct mt_cu_array_descriptor flat = {
		.width = 1024, .height = bytes / 4096, .format = 0x20, .channels = 1};

	return cuArrayCreate_v2((struct CUarray_st **)(void *)key, &flat);
}
static int make_array3d(uint64_t *key, size_t bytes)
{
	const struct mt_cu_array3d_descriptor deep = {
		.width = 1024, .height = bytes / 16384, .depth = 4, .format = 0x20, .channels = 1};

	return cuArray3DCreate_v2((struct CUarray_st **)(void *)key, &deep);
}
static int drop_array(uint64_t key)
{
	return cuArrayDestroy((struct CUarray_st *)(uintptr_t)key);
}
static int make_mipmapped(uint64_t *key, size_t bytes)
{
	const struct mt_cu_array3d_descriptor flat = {
		.width = 1024, .height = bytes / 4096, .format = 0x20, .channels = 1};

	return cuMipmappedArrayCreate((struct CUmipmappedArray_st **)(void *)key, &flat, 1);
}
static int drop_mipmapped(uint64_t key)
{
	return cuMipmappedArrayDestroy((struct CUmipmappedArray_st *)(uintptr_t)key);
}
static int make_host(uint64_t *key, size_t bytes)
{
	return cuMemHostAlloc((void **)key, bytes, 0);
}
static int make_host_plain(uint64_t *key, size_t bytes)
{
	return cuMemAllocHost_v2((void **)key, bytes);
}
static int drop_host(uint64_t key)
{
	return cuMemFreeHost((void *)(uintptr_t)key);
}
static int make_registered(uint64_t *key, size_t bytes)
{
	void *own = aligned_alloc(4096, bytes);
	int result;

	/* Where the kernel refuses the heap a mapping, out of memory is a right answer, once. */
	if (!own)
		own = aligned_alloc(4096, bytes);
	result = cuMemHostRegister_v2(own, bytes, 0);
	if (result)
		free(own);
	*key = (uint64_t)(uintptr_t)own;
	return result;
}
static int drop_registered(uint64_t key)
{
	int result = cuMemHostUnregister((void *)(uintptr_t)key);

	if (result == 0)
		free((void *)(uintptr_t)key);
	return result;
}

static const struct kind kinds[] = {
	{"cuMemAlloc_v2", make_plain, drop_plain, true},
	{"cuMemAllocPitch_v2", make_pitch, drop_plain, true},
	{"cuMemAllocManaged", make_managed, drop_plain, true},
	{"cuMemAllocAsync", make_async, drop_async, true},
	{"cuMemAllocAsync_ptsz", make_async_ptsz, drop_async_ptsz, true},
	{"cuMemAllocFromPoolAsync", make_pool, drop_async, true},
	{"cuMemAllocFromPoolAsync_ptsz", make_pool_ptsz, drop_async_ptsz, true},
	{"cuMemCreate", make_vmm, drop_vmm, true},
	{"cuArrayCreate_v2", make_array, drop_array, true},
	{"cuArray3DCreate_v2", make_array3d, drop_array, true},
	{"cuMipmappedArrayCreate", make_mipmapped, drop_mipmapped, true},
	{"cuMemHostAlloc", make_host, drop_host, false},
	{"cuMemAllocHost_v2", make_host_plain, drop_host, false},
	{"cuMemHostRegister_v2", make_registered, drop_registered, false},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

#endif
