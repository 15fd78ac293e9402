/* gpu/entries_answers.c -- what programs ask about memory, answered as if the pool were not there:
 * what it caches is free, a block is as large as was asked for, and a freed one is no memory at
 * all. */
#include "gpu/entries_work.h"
#include "gpu/release.h"

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

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t dptr)
{
	int kept_errno = errno;
	struct mt_cuda_block block;
	uint64_t its_base;
	int result;

	if (!mt_cuda_is_on() || (!base && !bytes) || !mt_cuda_find_block(dptr, &block)) {
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
	struct mt_cuda_block block;
	bool is_block;
	int result;

	if (!mt_cuda_is_on() || !data)
		return mt_cuda_call(cuPointerGetAttribute, data, attribute, dptr);
	is_block = mt_cuda_find_block(dptr, &block);
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
	struct mt_cuda_block block;
	bool is_block;
	int result;

	if (!mt_cuda_is_on() || !attributes || !data)
		return mt_cuda_call(cuPointerGetAttributes, count, attributes, data, dptr);
	is_block = mt_cuda_find_block(dptr, &block);
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
