/* gpu/entries_pointer.c -- questions about memory, answered as if the pool were not there: what it
 * caches is free, a block is as large as was asked for, and a freed one is no memory at all. And
 * what lets others see a block. */
#include "gpu/entries_work.h"
#include "gpu/release.h"

struct block {
	uint64_t base;
	size_t bytes; /* as asked for */
	/* to the program no memory: it has freed the block, or the address lies behind the size it
	 * asked for */
	bool is_absent;
};

#define READ_TRIES 3

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	int kept_errno = errno;
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
	errno = kept_errno;
	return result;
}

/* The block with this address anywhere inside it. False for what is not the pool's. */
static bool find_block(uint64_t dptr, struct block *out)
{
	size_t bytes = 0;

	if (!mt_pool_is_used())
		return false;
	out->base = dptr;
	if (mt_pool_range(out->base, &out->bytes, &out->is_absent))
		return true;
	/* Blocks are whole allocations of the driver's, so that it knows where this address begins.
	 */
	if (mt_cuda_call(cuMemGetAddressRange_v2, &out->base, &bytes, dptr) != MT_CU_SUCCESS ||
	    !mt_pool_range(out->base, &out->bytes, &out->is_absent))
		return false;
	out->is_absent |= dptr - out->base >= out->bytes;
	return true;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t dptr)
{
	int kept_errno = errno;
	struct block block;
	uint64_t its_base;
	int result;

	if (!mt_cuda_is_on() || (!base && !bytes) || !find_block(dptr, &block)) {
		errno = kept_errno;
		return mt_cuda_call(cuMemGetAddressRange_v2, base, bytes, dptr);
	}
	/* its errors count */
	result = mt_cuda_call(cuMemGetAddressRange_v2, &its_base, NULL, dptr);
	if (result == MT_CU_SUCCESS && block.is_absent) {
		result = MT_CU_NOT_FOUND;
	} else if (result == MT_CU_SUCCESS) {
		if (base)
			*base = block.base;
		if (bytes)
			*bytes = block.bytes;
	}
	errno = kept_errno;
	return result;
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t dptr)
{
	int kept_errno = errno;
	struct block block;
	bool is_block;
	int result;

	if (!mt_cuda_is_on() || !data)
		return mt_cuda_call(cuPointerGetAttribute, data, attribute, dptr);
	is_block = find_block(dptr, &block);
	if (is_block && block.is_absent) {
		errno = kept_errno;
		return MT_CU_INVALID_VALUE;
	}
	/* These tokens let other devices and processes reach the memory. */
	if (is_block && attribute == MT_CU_POINTER_P2P_TOKENS)
		mt_pool_mark_non_recyclable(dptr);
	result = mt_cuda_call(cuPointerGetAttribute, data, attribute, dptr);
	if (result == MT_CU_SUCCESS && is_block && attribute == MT_CU_POINTER_RANGE_SIZE)
		*(size_t *)data = block.bytes;
	errno = kept_errno;
	return result;
}

int cuPointerGetAttributes(unsigned int count, int *attributes, void **data, uint64_t dptr)
{
	/* no memory of the driver's: what it says of this, it says of freed memory */
	static const char nobodys;
	int kept_errno = errno;
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
			mt_pool_mark_non_recyclable(dptr);
	result = mt_cuda_call(cuPointerGetAttributes, count, attributes, data, dptr);
	for (unsigned int i = 0; result == MT_CU_SUCCESS && is_block && i < count; i++)
		if (attributes[i] == MT_CU_POINTER_RANGE_SIZE && data[i])
			*(size_t *)data[i] = block.bytes;
	errno = kept_errno;
	return result;
}

/* ---- functions after which somebody else knows a block: another process, another device, a
 * network card. Such a block is never handed to another owner; its free is the driver's. The mark
 * comes before the call, so that no moment is left in which it could be recycled. A block that the
 * program has freed is not exported at all: to the program it is no memory. ---- */

/* False: the address is in memory that the program has freed, or behind what it asked for. */
static bool mark_non_recyclable(uint64_t dptr)
{
	struct block block;
	int kept_errno = errno;
	bool is_block = find_block(dptr, &block);
	bool is_freed = is_block && block.is_absent;

	if (is_block && !is_freed)
		mt_pool_mark_non_recyclable(dptr);
	errno = kept_errno;
	return !is_freed;
}

int cuIpcGetMemHandle(struct mt_cu_ipc_handle *handle, uint64_t dptr)
{
	if (mt_cuda_is_on() && !mark_non_recyclable(dptr))
		return MT_CU_INVALID_VALUE;
	return mt_cuda_call(cuIpcGetMemHandle, handle, dptr);
}

int cuMemGetHandleForAddressRange(void *handle, uint64_t dptr, size_t bytes, int handle_type,
				  unsigned long long flags)
{
	if (mt_cuda_is_on() && !mark_non_recyclable(dptr))
		return MT_CU_INVALID_VALUE;
	return mt_cuda_call(cuMemGetHandleForAddressRange, handle, dptr, bytes, handle_type, flags);
}

int cuPointerSetAttribute(const void *value, int attribute, uint64_t dptr)
{
	if (attribute == MT_CU_POINTER_SYNC_MEMOPS && mt_cuda_is_on() && !mark_non_recyclable(dptr))
		return MT_CU_INVALID_VALUE;
	return mt_cuda_call(cuPointerSetAttribute, value, attribute, dptr);
}

int cuMulticastBindAddr(unsigned long long multicast, size_t offset, uint64_t dptr, size_t bytes,
			unsigned long long flags)
{
	if (mt_cuda_is_on() && !mark_non_recyclable(dptr))
		return MT_CU_INVALID_VALUE;
	return mt_cuda_call(cuMulticastBindAddr, multicast, offset, dptr, bytes, flags);
}

int cuMulticastBindAddr_v2(unsigned long long multicast, int device, size_t offset, uint64_t dptr,
			   size_t bytes, unsigned long long flags)
{
	if (mt_cuda_is_on() && !mark_non_recyclable(dptr))
		return MT_CU_INVALID_VALUE;
	return mt_cuda_call(cuMulticastBindAddr_v2, multicast, device, offset, dptr, bytes, flags);
}
