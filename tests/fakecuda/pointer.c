/* pointer.c -- what is asked and said about a pointer. */
#include <string.h>

#include "internal.h"

enum attribute {
	A_CONTEXT = 1,
	A_MEMORY_TYPE = 2,
	A_DEVICE_POINTER = 3,
	A_HOST_POINTER = 4,
	A_P2P_TOKENS = 5,
	A_SYNC_MEMOPS = 6,
	A_BUFFER_ID = 7,
	A_IS_MANAGED = 8,
	A_DEVICE_ORDINAL = 9,
	A_IPC_CAPABLE = 10,
	A_RANGE_START = 11,
	A_RANGE_SIZE = 12,
	A_MAPPED = 13,
	A_HANDLE_TYPES = 14,
	A_RDMA_CAPABLE = 15,
	A_ACCESS_FLAGS = 16,
	A_MEMPOOL = 17,
	A_MAPPING_SIZE = 18,
	A_MAPPING_BASE = 19,
	A_BLOCK_ID = 20
};

static const struct fake_block *find(uint64_t dptr)
{
	const struct fake_block *block = fake_block_at(dptr);

	return block ? block : fake_host_at((const void *)(uintptr_t)dptr);
}

static bool is_host(const struct fake_block *block)
{
	return block->kind == FAKECUDA_PINNED || block->kind == FAKECUDA_REGISTERED;
}

static void put(void *data, const void *value, size_t bytes)
{
	memcpy(data, value, bytes);
}

/* Bytes of the attribute's answer; 0: there is none such. */
static size_t answer(const struct fake_block *block, int attribute, uint64_t dptr, uint64_t *value)
{
	switch (attribute) {
	case A_CONTEXT:
		*value = (uint64_t)(uintptr_t)block->context;
		return 8;
	case A_MEMORY_TYPE:
		*value = is_host(block) ? 1 : 2;
		return 4;
	case A_DEVICE_POINTER:
		*value = dptr;
		return 8;
	case A_HOST_POINTER:
		*value = is_host(block) || block->kind == FAKECUDA_MANAGED ? dptr : 0;
		return *value ? 8 : 0;
	case A_P2P_TOKENS:
		*value = block->id;
		return is_host(block) ? 0 : 8;
	case A_SYNC_MEMOPS:
		*value = block->sync_memops;
		return 1;
	case A_BUFFER_ID:
	case A_BLOCK_ID:
		*value = block->id;
		return 8;
	case A_IS_MANAGED:
		*value = block->kind == FAKECUDA_MANAGED;
		return 4;
	case A_DEVICE_ORDINAL:
		*value = (uint64_t)block->device;
		return 4;
	case A_IPC_CAPABLE:
		*value = block->kind == FAKECUDA_DEVICE || block->kind == FAKECUDA_PITCH;
		return 1;
	case A_RANGE_START:
	case A_MAPPING_BASE:
		*value = block->base;
		return 8;
	case A_RANGE_SIZE:
	case A_MAPPING_SIZE:
		*value = block->bytes;
		return 8;
	case A_MAPPED:
		*value = 1;
		return 1;
	case A_HANDLE_TYPES:
	case A_RDMA_CAPABLE:
		*value = 0;
		return attribute == A_HANDLE_TYPES ? 8 : 1;
	case A_ACCESS_FLAGS:
		*value = 3;
		return 4;
	case A_MEMPOOL:
		*value = (uint64_t)(uintptr_t)block->owner;
		return 8;
	default:
		return 0;
	}
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t dptr)
{
	const struct fake_block *block;
	uint64_t value = 0;
	size_t bytes;
	const int result = fake_enter(FN_cuPointerGetAttribute, NULL);

	if (result != OK)
		return result;
	block = find(dptr);
	if (data == NULL || block == NULL)
		return fake_leave(INVALID_VALUE);
	bytes = answer(block, attribute, dptr, &value);
	if (bytes == 0)
		return fake_leave(INVALID_VALUE);
	if (attribute == A_P2P_TOKENS)
		memset(data, 0, 16); /* two numbers, 64 and 32 bits wide */
	put(data, &value, bytes);
	return fake_leave(OK);
}

/* Of a pointer that is not known it says so by zeros, not by its result. */
int cuPointerGetAttributes(unsigned int count, int *attributes, void **data, uint64_t dptr)
{
	static const struct fake_block nothing = {.device = -2};
	const struct fake_block *block;
	unsigned int i;
	const int result = fake_enter(FN_cuPointerGetAttributes, NULL);

	if (result != OK)
		return result;
	if (attributes == NULL || data == NULL || count == 0)
		return fake_leave(INVALID_VALUE);
	block = find(dptr);
	for (i = 0; i < count; i++) {
		uint64_t value = 0;
		const size_t bytes = answer(block ? block : &nothing, attributes[i], dptr, &value);

		if (block == NULL && attributes[i] != A_DEVICE_ORDINAL)
			value = 0;
		if (data[i] != NULL && (bytes != 0 || attributes[i] == A_HOST_POINTER))
			put(data[i], &value, bytes ? bytes : 8);
	}
	return fake_leave(OK);
}

int cuPointerSetAttribute(const void *value, int attribute, uint64_t dptr)
{
	struct fake_block *block;
	const int result = fake_enter(FN_cuPointerSetAttribute, NULL);

	if (result != OK)
		return result;
	block = fake_block_at(dptr);
	if (value == NULL || attribute != A_SYNC_MEMOPS || block == NULL || is_host(block))
		return fake_leave(INVALID_VALUE);
	block->sync_memops = *(const unsigned char *)value != 0;
	return fake_leave(OK);
}

int cuMemGetHandleForAddressRange(void *handle, uint64_t dptr, size_t bytes, int type,
				  unsigned long long flags)
{
	const struct fake_block *block;
	const int result = fake_enter(FN_cuMemGetHandleForAddressRange, NULL);

	(void)flags;
	if (result != OK)
		return result;
	block = fake_block_at(dptr);
	if (handle == NULL || block == NULL || bytes == 0 ||
	    dptr + bytes > block->base + block->bytes)
		return fake_leave(INVALID_VALUE);
	(void)type;
	return fake_leave(NOT_SUPPORTED); /* no dma-buf without a device */
}

int cuMulticastBindAddr(unsigned long long multicast, size_t offset, uint64_t dptr, size_t bytes,
			unsigned long long flags)
{
	const int result = fake_enter(FN_cuMulticastBindAddr, NULL);

	(void)multicast;
	(void)offset;
	(void)dptr;
	(void)bytes;
	(void)flags;
	return result != OK ? result : fake_leave(NOT_SUPPORTED);
}
