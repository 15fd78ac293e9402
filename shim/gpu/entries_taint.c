/* gpu/entries_mark_non_recyclable.c -- functions after which somebody else knows a block: another
 * process, another device, a network card. Such a block is never handed to another owner; its free
 * is the driver's. The mark comes before the call, so that no moment is left in which it could be
 * recycled. A block that the program has freed is not exported at all: to the program it is no
 * memory. */
#include "gpu/entries_work.h"

/* False: the address is in memory that the program has freed, or behind what it asked for. */
static bool mark_non_recyclable(uint64_t dptr)
{
	struct mt_cuda_block block;
	int kept_errno = errno;
	bool is_block = mt_cuda_find_block(dptr, &block);
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
