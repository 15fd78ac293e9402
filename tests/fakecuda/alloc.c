/* alloc.c -- cuMemAlloc and what is asked about it. */
#include "internal.h"

int cuMemAlloc_v2(uint64_t *dptr, size_t bytes)
{
	struct CUctx_st *context;
	struct fake_block *block;
	int result = fake_enter(FN_cuMemAlloc_v2, &context);

	if (result != OK)
		return result;
	if (dptr == NULL)
		return fake_leave(INVALID_VALUE);
	block = fake_block_new(FAKECUDA_DEVICE, context, bytes, true, &result);
	if (block != NULL)
		*dptr = block->base;
	return fake_leave(result);
}

/* What the program asked for may still be in use by work of other streams: a real cuMemFree waits,
 * for whom is a setting. */
static void wait_before_free(struct CUctx_st *context)
{
	struct fake_deps deps = {0};

	if (fake_settings.free_waits == 0)
		return;
	fake_context_deps(context->root, fake_settings.free_waits == 1, &deps);
	fake_wait(&deps);
}

int cuMemFree_v2(uint64_t dptr)
{
	struct CUctx_st *context;
	struct fake_block *block;
	uint64_t id;
	const int result = fake_enter(FN_cuMemFree_v2, &context);

	if (result != OK || dptr == 0)
		return result != OK ? result : fake_leave(OK);
	block = fake_block_at(dptr);
	if (block == NULL || block->base != dptr || block->is_freeing || block->is_idle ||
	    block->is_reserved || block->kind > FAKECUDA_ASYNC) {
		fake_ledger.refused_frees++;
		return fake_leave(INVALID_VALUE);
	}
	/* A second free that comes while we wait finds it gone. */
	block->is_freeing = true;
	id = block->id;
	wait_before_free(block->context);
	if (block->id != id) /* its context was ended meanwhile */
		return fake_leave(OK);
	if (block->owner)
		fake_pool_give_back(block);
	else
		fake_block_free(block);
	return fake_leave(OK);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct CUctx_st *context;
	const int result = fake_enter(FN_cuMemGetInfo_v2, &context);

	if (result != OK)
		return result;
	if (free_bytes == NULL && total_bytes == NULL)
		return fake_leave(INVALID_VALUE);
	if (free_bytes != NULL)
		*free_bytes = fake_free_bytes(context->device);
	if (total_bytes != NULL)
		*total_bytes = fake_settings.memory_bytes;
	return fake_leave(OK);
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t dptr)
{
	const struct fake_block *block;
	const int result = fake_enter(FN_cuMemGetAddressRange_v2, NULL);

	if (result != OK)
		return result;
	block = fake_block_at(dptr);
	if (block == NULL || block->is_freeing)
		return fake_leave(NOT_FOUND);
	if (base != NULL)
		*base = block->base;
	if (bytes != NULL)
		*bytes = block->bytes;
	return fake_leave(OK);
}

/* ---- the interface of 32-bit device pointers: there, and of no use to a program of today ---- */

static int refuse(enum fake_fn fn)
{
	const int result = fake_enter(fn, NULL);

	return result != OK ? result : fake_leave(INVALID_CONTEXT);
}

int cuMemAlloc(unsigned int *dptr, unsigned int bytes)
{
	(void)dptr;
	(void)bytes;
	return refuse(FN_cuMemAlloc);
}

int cuMemFree(unsigned int dptr)
{
	(void)dptr;
	return refuse(FN_cuMemFree);
}

int cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes)
{
	(void)free_bytes;
	(void)total_bytes;
	return refuse(FN_cuMemGetInfo);
}

int cuMemGetAddressRange(unsigned int *base, unsigned int *bytes, unsigned int dptr)
{
	(void)base;
	(void)bytes;
	(void)dptr;
	return refuse(FN_cuMemGetAddressRange);
}
