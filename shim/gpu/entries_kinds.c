/* gpu/entries_kinds.c -- the allocating functions that the pool does not serve: each is recorded by
 * kind, and tried again after a flush of the pool where the driver is out of memory. Their memory
 * belongs to the current context unless said otherwise. */
#include "gpu/entries_work.h"
#include "gpu/entries_array.h"
#include "gpu/capture.h"

/* ---- one record each ---- */

static struct mt_unpooled of_context(enum mt_unpooled_kind kind, int device, uint64_t key,
				     uint64_t bytes)
{
	struct mt_unpooled record = {.kind = kind,
				     .device = device,
				     .key = key,
				     .bytes = bytes,
				     .context = mt_cuda_current_context()};

	return record;
}

/* The end of a wrapper whose memory is the current context's; *dptr is read only where the driver
 * has written it. */
static int end_pointer(const struct mt_cuda_work *work, int result, enum mt_unpooled_kind kind,
		       const uint64_t *dptr, uint64_t bytes)
{
	struct mt_unpooled record = {.kind = kind};

	if (result == MT_CU_SUCCESS)
		record = of_context(kind, mt_cuda_current_device(), *dptr, bytes);
	return mt_cuda_end(work, result, &record);
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

/* ---- in stream order: the memory is a pool's of the driver, which outlives contexts ---- */

/* What a capture allocates is a node of its graph, with memory only while the graph runs. Asked
 * without effect on the capture; the legacy stream cannot capture. */
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
	struct mt_unpooled record = {.kind = MT_UNPOOLED_async, .bytes = bytes};

	if (!captured || result != MT_CU_SUCCESS) /* else a node of a graph, and no memory yet */
		mt_cuda_note(function, result, bytes, -1);
	if (captured && work->record) {
		mt_unpooled_cancel(work->record);
		work->record = NULL;
	}
	if (result == MT_CU_SUCCESS && work->record) {
		record.key = *dptr;
		record.device = mt_cuda_device_of(*dptr);
	}
	return mt_cuda_end(work, result, &record);
}

int cuMemAllocAsync(uint64_t *dptr, size_t bytes, struct CUstream_st *stream)
{
	struct mt_cuda_work work;

	if (!mt_cuda_is_on() || !dptr)
		return mt_cuda_call(cuMemAllocAsync, dptr, bytes, stream);
	work = mt_cuda_begin();
	return end_async(&work, mt_cuda_try(-1, bytes, cuMemAllocAsync, dptr, bytes, stream),
			 "cuMemAllocAsync", dptr, bytes, is_capturing(stream, false));
}

int cuMemAllocAsync_ptsz(uint64_t *dptr, size_t bytes, struct CUstream_st *stream)
{
	struct mt_cuda_work work;

	if (!mt_cuda_is_on() || !dptr)
		return mt_cuda_call(cuMemAllocAsync_ptsz, dptr, bytes, stream);
	work = mt_cuda_begin();
	return end_async(&work, mt_cuda_try(-1, bytes, cuMemAllocAsync_ptsz, dptr, bytes, stream),
			 "cuMemAllocAsync", dptr, bytes, is_capturing(stream, true));
}

int cuMemAllocFromPoolAsync(uint64_t *dptr, size_t bytes, struct CUmemPoolHandle_st *pool,
			    struct CUstream_st *stream)
{
	struct mt_cuda_work work;

	if (!mt_cuda_is_on() || !dptr)
		return mt_cuda_call(cuMemAllocFromPoolAsync, dptr, bytes, pool, stream);
	work = mt_cuda_begin();
	return end_async(&work,
			 mt_cuda_try(-1, bytes, cuMemAllocFromPoolAsync, dptr, bytes, pool, stream),
			 "cuMemAllocFromPoolAsync", dptr, bytes, is_capturing(stream, false));
}

int cuMemAllocFromPoolAsync_ptsz(uint64_t *dptr, size_t bytes, struct CUmemPoolHandle_st *pool,
				 struct CUstream_st *stream)
{
	struct mt_cuda_work work;

	if (!mt_cuda_is_on() || !dptr)
		return mt_cuda_call(cuMemAllocFromPoolAsync_ptsz, dptr, bytes, pool, stream);
	work = mt_cuda_begin();
	return end_async(
		&work,
		mt_cuda_try(-1, bytes, cuMemAllocFromPoolAsync_ptsz, dptr, bytes, pool, stream),
		"cuMemAllocFromPoolAsync", dptr, bytes, is_capturing(stream, true));
}

/* The driver also frees memory of cuMemAlloc in stream order: then a block of the pool's is the
 * driver's from here on, who knows when the stream has come so far. *out_taken is its record for
 * mt_cuda_end_free. False: a block that the program has freed already, which is no memory at all.
 */
static bool before_free_async(uint64_t dptr, struct mt_unpooled_record **out_taken)
{
	size_t bytes = 0;
	bool is_cached = false;

	if (mt_pool_range(dptr, &bytes, &is_cached)) {
		if (is_cached || !mt_pool_release(dptr))
			return false;
		*out_taken = mt_unpooled_reserve();
		if (*out_taken)
			(*out_taken)->is = of_context(MT_UNPOOLED_direct, mt_cuda_device_of(dptr),
						      dptr, bytes);
		return true;
	}
	*out_taken = mt_unpooled_take(MT_UNPOOLED_async, dptr);
	return true;
}

int cuMemFreeAsync(uint64_t dptr, struct CUstream_st *stream)
{
	int kept_errno = errno;
	struct mt_unpooled_record *taken;

	if (!mt_cuda_is_on())
		return mt_cuda_call(cuMemFreeAsync, dptr, stream);
	if (!before_free_async(dptr, &taken))
		return mt_cuda_end_free(kept_errno, MT_CU_INVALID_VALUE, NULL);
	return mt_cuda_end_free(kept_errno, mt_cuda_call(cuMemFreeAsync, dptr, stream), taken);
}

int cuMemFreeAsync_ptsz(uint64_t dptr, struct CUstream_st *stream)
{
	int kept_errno = errno;
	struct mt_unpooled_record *taken;

	if (!mt_cuda_is_on())
		return mt_cuda_call(cuMemFreeAsync_ptsz, dptr, stream);
	if (!before_free_async(dptr, &taken))
		return mt_cuda_end_free(kept_errno, MT_CU_INVALID_VALUE, NULL);
	return mt_cuda_end_free(kept_errno, mt_cuda_call(cuMemFreeAsync_ptsz, dptr, stream), taken);
}

/* ---- physical memory without an address ---- */

int cuMemCreate(unsigned long long *handle, size_t bytes, const struct mt_cu_allocation_prop *prop,
		unsigned long long flags)
{
	const int location_is_device = 1; /* CU_MEM_LOCATION_TYPE_DEVICE */
	struct mt_unpooled record = {.kind = MT_UNPOOLED_vmm, .bytes = bytes};
	struct mt_cuda_work work;
	int result;

	if (!mt_cuda_is_on() || !handle || !prop || prop->location.type != location_is_device)
		return mt_cuda_call(cuMemCreate, handle, bytes, prop, flags);
	record.device = prop->location.id;
	work = mt_cuda_begin();
	result = mt_cuda_try(record.device, bytes, cuMemCreate, handle, bytes, prop, flags);
	mt_cuda_note("cuMemCreate", result, bytes, record.device);
	if (result == MT_CU_SUCCESS)
		record.key = *handle;
	return mt_cuda_end(&work, result, &record);
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

/* Memory stays, also without a handle, as long as it is mapped somewhere. */
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

/* ---- arrays ---- */

static int end_array(const struct mt_cuda_work *work, int result, const char *function,
		     const void *array, uint64_t bytes)
{
	struct mt_unpooled record = {.kind = MT_UNPOOLED_array};

	mt_cuda_note(function, result, bytes, -1);
	if (result == MT_CU_SUCCESS)
		record = of_context(MT_UNPOOLED_array, mt_cuda_current_device(),
				    (uint64_t)(uintptr_t)array, bytes);
	return mt_cuda_end(work, result, &record);
}

int cuArrayCreate_v2(struct CUarray_st **array, const struct mt_cu_array_descriptor *descriptor)
{
	struct mt_cuda_work work;
	int result;

	if (!mt_cuda_is_on() || !array || !descriptor)
		return mt_cuda_call(cuArrayCreate_v2, array, descriptor);
	work = mt_cuda_begin();
	result = mt_cuda_try(-1, mt_cuda_array_bytes(descriptor), cuArrayCreate_v2, array,
			     descriptor);
	return end_array(&work, result, "cuArrayCreate", result == MT_CU_SUCCESS ? *array : NULL,
			 mt_cuda_array_bytes(descriptor));
}

int cuArray3DCreate_v2(struct CUarray_st **array, const struct mt_cu_array3d_descriptor *descriptor)
{
	struct mt_cuda_work work;
	int result;

	if (!mt_cuda_is_on() || !array || !descriptor)
		return mt_cuda_call(cuArray3DCreate_v2, array, descriptor);
	work = mt_cuda_begin();
	result = mt_cuda_try(-1, mt_cuda_array3d_bytes(descriptor, 1), cuArray3DCreate_v2, array,
			     descriptor);
	return end_array(&work, result, "cuArray3DCreate", result == MT_CU_SUCCESS ? *array : NULL,
			 mt_cuda_array3d_bytes(descriptor, 1));
}

int cuMipmappedArrayCreate(struct CUmipmappedArray_st **array,
			   const struct mt_cu_array3d_descriptor *descriptor, unsigned int levels)
{
	struct mt_cuda_work work;
	int result;

	if (!mt_cuda_is_on() || !array || !descriptor)
		return mt_cuda_call(cuMipmappedArrayCreate, array, descriptor, levels);
	work = mt_cuda_begin();
	result = mt_cuda_try(-1, mt_cuda_array3d_bytes(descriptor, levels), cuMipmappedArrayCreate,
			     array, descriptor, levels);
	return end_array(&work, result, "cuMipmappedArrayCreate",
			 result == MT_CU_SUCCESS ? *array : NULL,
			 mt_cuda_array3d_bytes(descriptor, levels));
}

int cuArrayDestroy(struct CUarray_st *array)
{
	int kept_errno = errno;
	struct mt_unpooled_record *taken;

	if (!mt_cuda_is_on())
		return mt_cuda_call(cuArrayDestroy, array);
	taken = mt_unpooled_take(MT_UNPOOLED_array, (uint64_t)(uintptr_t)array);
	return mt_cuda_end_free(kept_errno, mt_cuda_call(cuArrayDestroy, array), taken);
}

int cuMipmappedArrayDestroy(struct CUmipmappedArray_st *array)
{
	int kept_errno = errno;
	struct mt_unpooled_record *taken;

	if (!mt_cuda_is_on())
		return mt_cuda_call(cuMipmappedArrayDestroy, array);
	taken = mt_unpooled_take(MT_UNPOOLED_array, (uint64_t)(uintptr_t)array);
	return mt_cuda_end_free(kept_errno, mt_cuda_call(cuMipmappedArrayDestroy, array), taken);
}
