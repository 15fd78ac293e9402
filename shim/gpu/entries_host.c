/* gpu/entries_host.c -- page-locked host memory, and memory of other processes. An out-of-memory
 * error of host memory is counted. */
#include "gpu/entries_work.h"

static int end_pinned(const struct mt_cuda_work *work, int result, const void *ptr, uint64_t bytes)
{
	struct mt_unpooled is = {.kind = MT_UNPOOLED_pinned};

	if (result == MT_CU_SUCCESS)
		is = mt_cuda_describe(MT_UNPOOLED_pinned, (uint64_t)(uintptr_t)ptr, bytes);
	else if (result == MT_CU_OUT_OF_MEMORY)
		mt_pool_note_ooms(mt_cuda_current_device(), 1);
	return mt_cuda_end(work, result, &is);
}

#define ALLOC_WRAPPER(name, parameters, ...)                                                       \
	int name parameters                                                                        \
	{                                                                                          \
		struct mt_cuda_work work;                                                          \
		int result;                                                                        \
                                                                                                   \
		if (!mt_cuda_is_on() || !ptr)                                                      \
			return mt_cuda_call(name, __VA_ARGS__);                                    \
		work = mt_cuda_begin();                                                            \
		result = mt_cuda_try(-1, 0, name, __VA_ARGS__);                                    \
		return end_pinned(&work, result, result == MT_CU_SUCCESS ? *ptr : NULL, bytes);    \
	}

ALLOC_WRAPPER(cuMemHostAlloc, (void **ptr, size_t bytes, unsigned int flags), ptr, bytes, flags)
ALLOC_WRAPPER(cuMemAllocHost_v2, (void **ptr, size_t bytes), ptr, bytes)

int cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
	struct mt_cuda_work work;

	if (!mt_cuda_is_on())
		return mt_cuda_call(cuMemHostRegister_v2, ptr, bytes, flags);
	work = mt_cuda_begin();
	return end_pinned(&work, mt_cuda_try(-1, 0, cuMemHostRegister_v2, ptr, bytes, flags), ptr,
			  bytes);
}

MT_CUDA_FREE_WRAPPER(cuMemFreeHost, void *, MT_UNPOOLED_pinned)

MT_CUDA_FREE_WRAPPER(cuMemHostUnregister, void *, MT_UNPOOLED_pinned)

/* ---- memory of another process ---- */

/* The same handle may be opened again with the same address, and closed as often: the record goes
 * with the first close. */
int cuIpcOpenMemHandle_v2(uint64_t *dptr, struct mt_cu_ipc_handle handle, unsigned int flags)
{
	struct mt_unpooled is = {.kind = MT_UNPOOLED_imported};
	struct mt_cuda_work work;
	uint64_t base = 0;
	size_t bytes = 0;
	int result;

	if (!mt_cuda_is_on() || !dptr)
		return mt_cuda_call(cuIpcOpenMemHandle_v2, dptr, handle, flags);
	work = mt_cuda_begin();
	result = mt_cuda_try(-1, 0, cuIpcOpenMemHandle_v2, dptr, handle, flags);
	if (result == MT_CU_SUCCESS) {
		if (mt_cuda_call(cuMemGetAddressRange_v2, &base, &bytes, *dptr) != MT_CU_SUCCESS)
			bytes = 0;
		is = mt_cuda_describe(MT_UNPOOLED_imported, *dptr, bytes);
		is.device = mt_cuda_device_of(*dptr);
	} else if (result == MT_CU_OUT_OF_MEMORY) {
		mt_cuda_report("cuIpcOpenMemHandle", result, 0, -1);
	}
	return mt_cuda_end(&work, result, &is);
}

MT_CUDA_FREE_WRAPPER(cuIpcCloseMemHandle, uint64_t, MT_UNPOOLED_imported)
