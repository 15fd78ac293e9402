/* gpu/entries_alloc.c -- cuMemAlloc and cuMemFree, which the pool serves, and what all wrappers
 * share. */
#include "gpu/entries_work.h"

#include <stdatomic.h>

#include "gpu/capture.h"

/* ---- the current device and context ---- */

/* Most machines have one device: then there is no need to ask at every call. */
bool mt_cuda_has_one_device(void)
{
	static _Atomic int known; /* devices, 0 while unknown; counter, no ordering */
	int count = atomic_load_explicit(&known, memory_order_relaxed);

	if (mt_unlikely(count == 0) && mt_cuda_call(cuDeviceGetCount, &count) == MT_CU_SUCCESS)
		atomic_store_explicit(&known, count, memory_order_relaxed);
	return count == 1;
}

int mt_cuda_current_device(void)
{
	int device = 0;

	if (mt_cuda_has_one_device() || mt_cuda_call(cuCtxGetDevice, &device) != MT_CU_SUCCESS)
		return 0;
	return device;
}

struct mt_unpooled mt_cuda_describe(enum mt_unpooled_kind kind, uint64_t key, uint64_t bytes)
{
	struct CUctx_st *context = NULL;

	if (mt_cuda_call(cuCtxGetCurrent, &context) != MT_CU_SUCCESS)
		context = NULL;
	return (struct mt_unpooled){.kind = kind,
				    .device = mt_cuda_current_device(),
				    .key = key,
				    .bytes = bytes,
				    .context = (uint64_t)(uintptr_t)context};
}

int mt_cuda_device_of(uint64_t dptr)
{
	int device = 0;

	if (mt_cuda_has_one_device())
		return 0;
	if (mt_cuda_call(cuPointerGetAttribute, &device, MT_CU_POINTER_DEVICE_ORDINAL, dptr) ==
		    MT_CU_SUCCESS &&
	    device >= 0)
		return device;
	return mt_cuda_current_device();
}

/* ---- the end of a wrapper ---- */

int mt_cuda_end(const struct mt_cuda_work *work, int result, const struct mt_unpooled *is)
{
	if (work->record && result == MT_CU_SUCCESS) {
		work->record->is = *is;
		mt_unpooled_add(work->record);
	} else if (work->record) {
		mt_unpooled_cancel(work->record);
	}
	errno = work->kept_errno;
	return result;
}

int mt_cuda_end_free(int kept_errno, int result, struct mt_unpooled_record *taken)
{
	if (taken && result != MT_CU_SUCCESS)
		mt_unpooled_restore(taken);
	else if (taken)
		mt_unpooled_cancel(taken);
	errno = kept_errno;
	return result;
}

MT_COLD void mt_cuda_report(const char *function, int result, uint64_t bytes, int device)
{
	size_t free_bytes = 0;
	size_t total_bytes = 0;

	if (device < 0)
		device = mt_cuda_current_device();
	if (result == MT_CU_SUCCESS)
		mt_oom_note_success(bytes, device);
	if (result != MT_CU_OUT_OF_MEMORY)
		return;
	if (!mt_capture_is_open() &&
	    mt_cuda_call(cuMemGetInfo_v2, &free_bytes, &total_bytes) != MT_CU_SUCCESS)
		free_bytes = total_bytes = 0;
	mt_oom_note(function, bytes, device, free_bytes, total_bytes);
}

/* ---- cuMemAlloc and cuMemFree ---- */

int cuMemAlloc_v2(uint64_t *dptr, size_t bytes)
{
	int kept_errno = errno;
	int result;

	if (mt_unlikely(!mt_cuda_is_on()))
		return mt_cuda_call(cuMemAlloc_v2, dptr, bytes);
	result = mt_pool_alloc(dptr, bytes);
	/* the pool has tried again already */
	mt_cuda_note("cuMemAlloc", result, bytes, -1);
	errno = kept_errno;
	return result;
}

int cuMemFree_v2(uint64_t dptr)
{
	int kept_errno = errno;
	struct mt_unpooled_record *taken;
	int result;

	if (mt_unlikely(!mt_cuda_is_on()))
		return mt_cuda_call(cuMemFree_v2, dptr);
	if (mt_likely(mt_pool_free(dptr, &result))) {
		errno = kept_errno;
		return result;
	}
	/* managed, pitched and async memory may be freed by this too */
	taken = mt_unpooled_take(MT_UNPOOLED_direct, dptr);
	return mt_cuda_end_free(kept_errno, mt_cuda_call(cuMemFree_v2, dptr), taken);
}
