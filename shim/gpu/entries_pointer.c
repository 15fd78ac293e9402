/* gpu/entries_pointer.c -- questions about memory, answered as if there were no pool: what it
 * caches is free, a block is as large as the program asked for, and a freed block is no memory. And
 * functions that export a block. */
#include "gpu/wrapper.h"
#include "gpu/release.h"

struct block {
	uint64_t base;
	size_t bytes; /* as the program asked */
	/* no memory to the program: it has freed the block, or the address lies behind the size
	 * that it asked for */
	bool is_absent;
};

#define READ_TRIES 3

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	MT_CUDA_KEEP_ERRNO;
	int result = MT_CU_SUCCESS;
	uint64_t most, withheld = 0;
	bool is_exact = false;
	int device;

	if (!mt_cuda_is_on() || !free_bytes)
		return mt_cuda_call(cuMemGetInfo_v2, free_bytes, total_bytes);
	device = mt_cuda_current_device();
	for (unsigned i = 0; i < READ_TRIES && !is_exact && result == MT_CU_SUCCESS; i++) {
		uint32_t releases = mt_pool_read_begin(device);

		result = mt_cuda_call(cuMemGetInfo_v2, free_bytes, total_bytes);
		withheld = mt_pool_withheld_bytes(device);
		is_exact = mt_pool_read_end(device, releases);
	}
	if (result != MT_CU_SUCCESS)
		return result;
	most = total_bytes ? *total_bytes : SIZE_MAX;
	*free_bytes += withheld;
	if (*free_bytes > most)
		*free_bytes = most;
	return result;
}

/* Finds the block that contains this address. Returns false for memory that is not the pool's. */
static bool find_block(uint64_t dptr, struct block *out)
{
	if (!mt_pool_is_used())
		return false;
	out->base = dptr;
	if (mt_pool_range(out->base, &out->bytes, &out->is_absent))
		return true;
	/* A block is a whole allocation of the driver, which therefore knows where the address
	 * begins. It tells that in any context, also in one that an error has ended. */
	if (mt_cuda_call(cuPointerGetAttribute, &out->base, MT_CU_POINTER_RANGE_START_ADDR, dptr) !=
		    MT_CU_SUCCESS ||
	    !mt_pool_range(out->base, &out->bytes, &out->is_absent))
		return false;
	out->is_absent |= dptr - out->base >= out->bytes;
	return true;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t dptr)
{
	MT_CUDA_KEEP_ERRNO;
	struct block block;
	uint64_t its_base;
	int result;

	if (!mt_cuda_is_on() || (!base && !bytes) || !find_block(dptr, &block))
		return mt_cuda_call(cuMemGetAddressRange_v2, base, bytes, dptr);
	/* the driver's errors count */
	result = mt_cuda_call(cuMemGetAddressRange_v2, &its_base, NULL, dptr);
	if (result == MT_CU_SUCCESS && block.is_absent) {
		result = MT_CU_NOT_FOUND;
	} else if (result == MT_CU_SUCCESS) {
		if (base)
			*base = block.base;
		if (bytes)
			*bytes = block.bytes;
	}
	return result;
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t dptr)
{
	MT_CUDA_KEEP_ERRNO;
	struct block block;
	bool is_block;
	int result;

	if (!mt_cuda_is_on() || !data)
		return mt_cuda_call(cuPointerGetAttribute, data, attribute, dptr);
	is_block = find_block(dptr, &block);
	if (is_block && block.is_absent)
		return MT_CU_INVALID_VALUE;
	/* These tokens let other devices and processes reach the memory. */
	if (is_block && attribute == MT_CU_POINTER_P2P_TOKENS)
		mt_pool_mark_non_recyclable(block.base);
	result = mt_cuda_call(cuPointerGetAttribute, data, attribute, dptr);
	if (result == MT_CU_SUCCESS && is_block && attribute == MT_CU_POINTER_RANGE_SIZE)
		*(size_t *)data = block.bytes;
	return result;
}

int cuPointerGetAttributes(unsigned int count, int *attributes, void **data, uint64_t dptr)
{
	/* no memory of the driver: it replies as for freed memory */
	static const char nobodys;
	MT_CUDA_KEEP_ERRNO;
	struct block block;
	bool is_block;
	int result;

	if (!mt_cuda_is_on() || !attributes || !data)
		return mt_cuda_call(cuPointerGetAttributes, count, attributes, data, dptr);
	is_block = find_block(dptr, &block);
	if (is_block && block.is_absent) {
		dptr = (uint64_t)(uintptr_t)&nobodys;
		is_block = false;
	}
	for (unsigned int i = 0; is_block && i < count; i++)
		if (attributes[i] == MT_CU_POINTER_P2P_TOKENS)
			mt_pool_mark_non_recyclable(block.base);
	result = mt_cuda_call(cuPointerGetAttributes, count, attributes, data, dptr);
	for (unsigned int i = 0; result == MT_CU_SUCCESS && is_block && i < count; i++)
		if (attributes[i] == MT_CU_POINTER_RANGE_SIZE && data[i])
			*(size_t *)data[i] = block.bytes;
	return result;
}

/* ---- functions after which another process, another device or a network card knows a block. Such
 * a block is never handed out again; its free goes to the driver. The mark comes before the call,
 * so that the block cannot be reused in between. A block that the program has freed is not
 * exported: to the program it is no memory. ---- */

/* Returns false if the program has freed the memory, or the address lies behind what it asked
 * for. */
static bool mark_non_recyclable(uint64_t dptr)
{
	MT_CUDA_KEEP_ERRNO;
	struct block block;
	bool is_block = find_block(dptr, &block);
	bool is_freed = is_block && block.is_absent;

	if (is_block && !is_freed)
		mt_pool_mark_non_recyclable(block.base);
	return !is_freed;
}

#define EXPORT_WRAPPER(name, exports, parameters, ...)                                             \
	int name parameters                                                                        \
	{                                                                                          \
		if (!mt_cuda_is_on())                                                              \
			return mt_cuda_call(name, __VA_ARGS__);                                    \
		if ((exports) && !mark_non_recyclable(dptr))                                       \
			return MT_CU_INVALID_VALUE;                                                \
		return mt_cuda_try(-1, 0, name, __VA_ARGS__);                                      \
	}

EXPORT_WRAPPER(cuIpcGetMemHandle, true, (struct mt_cu_ipc_handle * handle, uint64_t dptr), handle,
	       dptr)
EXPORT_WRAPPER(cuMemGetHandleForAddressRange, true,
	       (void *handle, uint64_t dptr, size_t bytes, int handle_type,
		unsigned long long flags),
	       handle, dptr, bytes, handle_type, flags)
EXPORT_WRAPPER(cuPointerSetAttribute, attribute == MT_CU_POINTER_SYNC_MEMOPS,
	       (const void *value, int attribute, uint64_t dptr), value, attribute, dptr)
EXPORT_WRAPPER(cuMulticastBindAddr, true,
	       (unsigned long long multicast, size_t offset, uint64_t dptr, size_t bytes,
		unsigned long long flags),
	       multicast, offset, dptr, bytes, flags)
EXPORT_WRAPPER(cuMulticastBindAddr_v2, true,
	       (unsigned long long multicast, int device, size_t offset, uint64_t dptr,
		size_t bytes, unsigned long long flags),
	       multicast, device, offset, dptr, bytes, flags)
