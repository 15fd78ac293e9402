/* host.c -- pinned host memory: ours, and the program's own that it registers. The device reaches
 * it at the same address. */
#include <stdlib.h>

#include "internal.h"

static struct fake_block *registered; /* by queue_next */

struct fake_block *fake_host_at(const void *address)
{
	const uint64_t at = (uint64_t)(uintptr_t)address;
	struct fake_block *block = fake_block_at(at);

	if (block != NULL)
		return block->kind == FAKECUDA_PINNED && !block->is_reserved ? block : NULL;
	for (block = registered; block; block = block->queue_next)
		if (at - block->base < block->bytes)
			return block;
	return NULL;
}

static int host_alloc(enum fake_fn fn, void **ptr, size_t bytes, unsigned int flags)
{
	struct CUctx_st *context;
	struct fake_block *block;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (ptr == NULL || (flags & ~7u) != 0)
		return fake_leave(INVALID_VALUE);
	block = fake_block_new(FAKECUDA_PINNED, context, bytes, false, &result);
	if (block != NULL) {
		block->host_flags = flags;
		*ptr = (void *)(uintptr_t)block->base;
	}
	return fake_leave(result);
}

int cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	return host_alloc(FN_cuMemHostAlloc, ptr, bytes, flags);
}

int cuMemAllocHost_v2(void **ptr, size_t bytes)
{
	return host_alloc(FN_cuMemAllocHost_v2, ptr, bytes, 0);
}

int cuMemFreeHost(void *ptr)
{
	struct fake_deps deps = {0};
	struct fake_block *block;
	uint64_t id;
	const int result = fake_enter(FN_cuMemFreeHost, NULL);

	if (result != OK)
		return result;
	block = fake_block_at((uint64_t)(uintptr_t)ptr);
	if (block == NULL || block->kind != FAKECUDA_PINNED || block->is_reserved ||
	    block->is_freeing || block->base != (uint64_t)(uintptr_t)ptr) {
		fake_ledger.refused_frees++;
		return fake_leave(INVALID_VALUE);
	}
	block->is_freeing = true;
	id = block->id;
	fake_context_deps(block->context->root, false, &deps);
	fake_wait(&deps);
	if (block->id == id)
		fake_block_free(block);
	return fake_leave(OK);
}

static int host_register(enum fake_fn fn, void *ptr, size_t bytes, unsigned int flags)
{
	const uint64_t at = (uint64_t)(uintptr_t)ptr;
	struct CUctx_st *context;
	struct fake_block *block;
	const int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (ptr == NULL || bytes == 0 || fake_address_is_ours(at))
		return fake_leave(INVALID_VALUE);
	for (block = registered; block; block = block->queue_next)
		if (at < block->base + block->bytes && block->base < at + bytes)
			return fake_leave(HOST_MEMORY_ALREADY_REGISTERED);
	block = fake_alloc(sizeof(*block));
	block->base = at;
	block->bytes = bytes;
	block->kind = FAKECUDA_REGISTERED;
	block->context = context;
	block->device = context->device;
	block->id = fake_next_id();
	block->host_flags = flags;
	block->queue_next = registered;
	registered = block;
	fake_ledger.live_bytes[FAKECUDA_REGISTERED] += bytes;
	fake_ledger.live_count[FAKECUDA_REGISTERED]++;
	return fake_leave(OK);
}

int cuMemHostRegister(void *ptr, size_t bytes, unsigned int flags)
{
	return host_register(FN_cuMemHostRegister, ptr, bytes, flags);
}

int cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
	return host_register(FN_cuMemHostRegister_v2, ptr, bytes, flags);
}

static void forget(struct fake_block **link)
{
	struct fake_block *block = *link;

	*link = block->queue_next;
	fake_ledger.live_bytes[FAKECUDA_REGISTERED] -= block->bytes;
	fake_ledger.live_count[FAKECUDA_REGISTERED]--;
	free(block);
}

int cuMemHostUnregister(void *ptr)
{
	struct fake_block **link;
	const int result = fake_enter(FN_cuMemHostUnregister, NULL);

	if (result != OK)
		return result;
	for (link = &registered; *link; link = &(*link)->queue_next)
		if ((*link)->base == (uint64_t)(uintptr_t)ptr) {
			forget(link);
			return fake_leave(OK);
		}
	return fake_leave(HOST_MEMORY_NOT_REGISTERED);
}

void fake_host_context_ends(const struct CUctx_st *context)
{
	struct fake_block **link = &registered;

	while (*link)
		if ((*link)->context == context)
			forget(link);
		else
			link = &(*link)->queue_next;
}

int cuMemHostGetDevicePointer_v2(uint64_t *dptr, void *ptr, unsigned int flags)
{
	const int result = fake_enter(FN_cuMemHostGetDevicePointer_v2, NULL);

	if (result != OK)
		return result;
	if (dptr == NULL || flags != 0 || fake_host_at(ptr) == NULL)
		return fake_leave(INVALID_VALUE);
	*dptr = (uint64_t)(uintptr_t)ptr;
	return fake_leave(OK);
}

int cuMemHostGetFlags(unsigned int *flags, void *ptr)
{
	const struct fake_block *block;
	const int result = fake_enter(FN_cuMemHostGetFlags, NULL);

	if (result != OK)
		return result;
	block = fake_host_at(ptr);
	if (flags == NULL || block == NULL)
		return fake_leave(INVALID_VALUE);
	*flags = block->host_flags;
	return fake_leave(OK);
}
