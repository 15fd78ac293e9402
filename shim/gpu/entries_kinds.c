/* gpu/entries_kinds.c -- allocations that the pool does not serve: each is recorded by kind, and
 * tried again while the pool gives back where the driver is out of memory. Their memory belongs to
 * the current context unless a comment says otherwise. */
#include "gpu/entries_work.h"
#include "gpu/capture.h"

/* The end of a wrapper whose memory is the current context's; *dptr is read only where the driver
 * has written it. */
static int end_pointer(const struct mt_cuda_work *work, int result, enum mt_unpooled_kind kind,
		       const uint64_t *dptr, uint64_t bytes)
{
	struct mt_unpooled is = {.kind = kind};

	if (result == MT_CU_SUCCESS)
		is = mt_cuda_describe(kind, *dptr, bytes);
	return mt_cuda_end(work, result, &is);
}

/* ---- pitched and managed ---- */

int cuMemAllocPitch_v2(uint64_t *dptr, size_t *pitch, size_t width, size_t height,
		       unsigned int element_bytes)
{
	struct mt_cuda_work work;
	int result;

	if (!mt_cuda_is_on() || !dptr || !pitch)
		return mt_cuda_call(cuMemAllocPitch_v2, dptr, pitch, width, height, element_bytes);
	work = mt_cuda_begin();
	result = mt_cuda_try(-1, (uint64_t)width * height, cuMemAllocPitch_v2, dptr, pitch, width,
			     height, element_bytes);
	mt_cuda_note("cuMemAllocPitch", result, (uint64_t)width * height, -1);
	return end_pointer(&work, result, MT_UNPOOLED_pitch, dptr,
			   result == MT_CU_SUCCESS ? *pitch * height : 0);
}

int cuMemAllocManaged(uint64_t *dptr, size_t bytes, unsigned int flags)
{
	struct mt_cuda_work work;
	int result;

	if (!mt_cuda_is_on() || !dptr)
		return mt_cuda_call(cuMemAllocManaged, dptr, bytes, flags);
	work = mt_cuda_begin();
	result = mt_cuda_try(-1, bytes, cuMemAllocManaged, dptr, bytes, flags);
	mt_cuda_note("cuMemAllocManaged", result, bytes, -1);
	return end_pointer(&work, result, MT_UNPOOLED_managed, dptr, bytes);
}

/* ---- in stream order: the memory belongs to a pool of the driver, which outlives contexts ---- */

/* A capture allocates a node of its graph, with memory only while the graph runs. The query has no
 * effect on the capture; the legacy stream cannot capture. */
static bool is_capturing(struct CUstream_st *stream, bool is_ptsz)
{
	int status = MT_CU_CAPTURE_NONE;

	if (!mt_capture_is_open() || (!stream && !is_ptsz))
		return false;
	if (is_ptsz)
		(void)mt_cuda_call(cuStreamIsCapturing_ptsz, stream, &status);
	else
		(void)mt_cuda_call(cuStreamIsCapturing, stream, &status);
	return status != MT_CU_CAPTURE_NONE;
}

static int end_async(struct mt_cuda_work *work, int result, const char *function,
		     const uint64_t *dptr, uint64_t bytes, bool captured)
{
	struct mt_unpooled is = {.kind = MT_UNPOOLED_async, .bytes = bytes};

	if (!captured || result != MT_CU_SUCCESS) /* else a node of a graph, without memory yet */
		mt_cuda_note(function, result, bytes, -1);
	if (captured && work->record) {
		mt_unpooled_cancel(work->record);
		work->record = NULL;
	}
	if (result == MT_CU_SUCCESS && work->record) {
		is.key = *dptr;
		is.device = mt_cuda_device_of(*dptr);
	}
	return mt_cuda_end(work, result, &is);
}

#define ASYNC_WRAPPER(symbol, function, is_ptsz, parameters, ...)                                  \
	int symbol parameters                                                                      \
	{                                                                                          \
		struct mt_cuda_work work;                                                          \
                                                                                                   \
		if (!mt_cuda_is_on() || !dptr)                                                     \
			return mt_cuda_call(symbol, __VA_ARGS__);                                  \
		work = mt_cuda_begin();                                                            \
		return end_async(&work, mt_cuda_try(-1, bytes, symbol, __VA_ARGS__), function,     \
				 dptr, bytes, is_capturing(stream, is_ptsz));                      \
	}

ASYNC_WRAPPER(cuMemAllocAsync, "cuMemAllocAsync", false,
	      (uint64_t * dptr, size_t bytes, struct CUstream_st *stream), dptr, bytes, stream)
ASYNC_WRAPPER(cuMemAllocAsync_ptsz, "cuMemAllocAsync", true,
	      (uint64_t * dptr, size_t bytes, struct CUstream_st *stream), dptr, bytes, stream)
ASYNC_WRAPPER(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", false,
	      (uint64_t * dptr, size_t bytes, struct CUmemPoolHandle_st *pool,
	       struct CUstream_st *stream),
	      dptr, bytes, pool, stream)
ASYNC_WRAPPER(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", true,
	      (uint64_t * dptr, size_t bytes, struct CUmemPoolHandle_st *pool,
	       struct CUstream_st *stream),
	      dptr, bytes, pool, stream)

/* The driver also frees memory of cuMemAlloc in stream order: a block of the pool is the driver's
 * from here on. *out_taken: its record for mt_cuda_end_free. Returns false for a block that the
 * program has freed already. */
static bool before_free_async(uint64_t dptr, struct mt_unpooled_record **out_taken)
{
	size_t bytes = 0;
	bool is_cached = false;

	if (mt_pool_range(dptr, &bytes, &is_cached)) {
		if (is_cached || !mt_pool_disown(dptr))
			return false;
		*out_taken = mt_unpooled_reserve();
		if (*out_taken) {
			(*out_taken)->is = mt_cuda_describe(MT_UNPOOLED_direct, dptr, bytes);
			(*out_taken)->is.device = mt_cuda_device_of(dptr);
		}
		return true;
	}
	*out_taken = mt_unpooled_take(MT_UNPOOLED_async, dptr);
	return true;
}

#define X(name)                                                                                    \
	int name(uint64_t dptr, struct CUstream_st *stream)                                        \
	{                                                                                          \
		int kept_errno = errno;                                                            \
		struct mt_unpooled_record *taken;                                                  \
                                                                                                   \
		if (!mt_cuda_is_on())                                                              \
			return mt_cuda_call(name, dptr, stream);                                   \
		if (!before_free_async(dptr, &taken))                                              \
			return mt_cuda_end_free(kept_errno, MT_CU_INVALID_VALUE, NULL);            \
		return mt_cuda_end_free(kept_errno, mt_cuda_call(name, dptr, stream), taken);      \
	}
X(cuMemFreeAsync)
X(cuMemFreeAsync_ptsz)
#undef X

/* ---- physical memory without an address ---- */

int cuMemCreate(unsigned long long *handle, size_t bytes, const struct mt_cu_allocation_prop *prop,
		unsigned long long flags)
{
	const int location_is_device = 1; /* CU_MEM_LOCATION_TYPE_DEVICE */
	struct mt_unpooled is = {.kind = MT_UNPOOLED_vmm, .bytes = bytes};
	struct mt_cuda_work work;
	int result;

	if (!mt_cuda_is_on() || !handle || !prop || prop->location.type != location_is_device)
		return mt_cuda_call(cuMemCreate, handle, bytes, prop, flags);
	is.device = prop->location.id;
	work = mt_cuda_begin();
	result = mt_cuda_try(is.device, bytes, cuMemCreate, handle, bytes, prop, flags);
	mt_cuda_note("cuMemCreate", result, bytes, is.device);
	if (result == MT_CU_SUCCESS)
		is.key = *handle;
	return mt_cuda_end(&work, result, &is);
}

int cuMemRelease(unsigned long long handle)
{
	int kept_errno = errno;
	uint64_t number;
	int result;

	if (!mt_cuda_is_on())
		return mt_cuda_call(cuMemRelease, handle);
	number = mt_unpooled_release_begin(handle);
	result = mt_cuda_call(cuMemRelease, handle);
	mt_unpooled_release_end(handle, number, result == MT_CU_SUCCESS);
	errno = kept_errno;
	return result;
}

int cuMemRetainAllocationHandle(unsigned long long *handle, void *address)
{
	int kept_errno = errno;
	int result = mt_cuda_call(cuMemRetainAllocationHandle, handle, address);

	if (result == MT_CU_SUCCESS && mt_cuda_is_on())
		mt_unpooled_retain(*handle);
	errno = kept_errno;
	return result;
}

/* Memory stays, also without a handle, while it is mapped. */
int cuMemMap(uint64_t dptr, size_t bytes, size_t offset, unsigned long long handle,
	     unsigned long long flags)
{
	int kept_errno = errno;
	struct mt_unpooled_record *record;
	int result;

	if (!mt_cuda_is_on())
		return mt_cuda_call(cuMemMap, dptr, bytes, offset, handle, flags);
	record = mt_unpooled_reserve();
	result = mt_cuda_call(cuMemMap, dptr, bytes, offset, handle, flags);
	if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY))
		result = mt_cuda_retry(-1, 0, cuMemMap, dptr, bytes, offset, handle, flags);
	if (record && result == MT_CU_SUCCESS)
		mt_unpooled_map(record, dptr, bytes, handle);
	else if (record)
		mt_unpooled_cancel(record);
	errno = kept_errno;
	return result;
}

int cuMemUnmap(uint64_t dptr, size_t bytes)
{
	int kept_errno = errno;
	int result = mt_cuda_call(cuMemUnmap, dptr, bytes);

	if (result == MT_CU_SUCCESS && mt_cuda_is_on())
		mt_unpooled_unmap(dptr, bytes);
	errno = kept_errno;
	return result;
}
