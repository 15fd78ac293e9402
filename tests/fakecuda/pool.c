/* pool.c -- memory in stream order. A pool keeps what is freed and hands it out again: at once to
 * the stream that freed it, to others when what came before the free is done. What a pool holds
 * counts against the device until it is trimmed, or until a wait ends while it keeps more than its
 * threshold. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct CUmemPoolHandle_st {
	struct fake_object object;
	int device;
	bool is_default;
	int reuse[4]; /* attributes 1 to 3, kept and without effect */
	uint64_t threshold;
	uint64_t held_bytes, held_high; /* handed out and idle, rounded to 512 */
	uint64_t used_bytes, used_high;
	struct fake_block *idle; /* by queue_next, latest first */
};

enum {
	ATTR_THRESHOLD = 4,
	ATTR_RESERVED = 5,
	ATTR_RESERVED_HIGH = 6,
	ATTR_USED = 7,
	ATTR_USED_HIGH = 8
};

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

static uint64_t reserved(const struct CUmemPoolHandle_st *pool)
{
	return round_up(pool->held_bytes, fake_settings.granularity);
}

/* What is charged follows what is held. */
static bool hold(struct CUmemPoolHandle_st *pool, uint64_t bytes)
{
	const uint64_t before = reserved(pool);

	pool->held_bytes += bytes;
	if (!fake_charge(pool->device, reserved(pool) - before)) {
		pool->held_bytes -= bytes;
		return false;
	}
	if (reserved(pool) > pool->held_high)
		pool->held_high = reserved(pool);
	return true;
}

static void let_go(struct CUmemPoolHandle_st *pool, uint64_t bytes)
{
	const uint64_t before = reserved(pool);

	pool->held_bytes -= bytes;
	fake_uncharge(pool->device, before - reserved(pool));
}

static void unidle(struct CUmemPoolHandle_st *pool, struct fake_block *block)
{
	struct fake_block **link;

	for (link = &pool->idle; *link != block; link = &(*link)->queue_next)
		;
	*link = block->queue_next;
	block->queue_next = NULL;
	block->is_idle = false;
}

static void ledger(const struct fake_block *block, bool out)
{
	fake_ledger.live_bytes[FAKECUDA_ASYNC] += out ? block->bytes : 0 - block->bytes;
	fake_ledger.live_count[FAKECUDA_ASYNC] += out ? 1 : (uint64_t)-1;
}

/* Called from fake_block_free, before the ledger is told. */
void fake_pool_forget(struct fake_block *block)
{
	struct CUmemPoolHandle_st *pool = block->owner;

	if (block->is_idle) {
		unidle(pool, block);
		ledger(block, true);
	} else {
		pool->used_bytes -= round_up(block->bytes, 512);
	}
	let_go(pool, round_up(block->bytes, 512));
	block->owner = NULL;
}

static void make_idle(struct fake_block *block)
{
	struct CUmemPoolHandle_st *pool = block->owner;

	pool->used_bytes -= round_up(block->bytes, 512);
	ledger(block, false);
	block->is_freeing = false;
	block->is_idle = true;
	block->queue_next = pool->idle;
	pool->idle = block;
}

void fake_pool_give_back(struct fake_block *block)
{
	block->freed_on = 0;
	make_idle(block);
}

/* Down to so many bytes, as far as nothing in flight uses it. */
static void trim(struct CUmemPoolHandle_st *pool, uint64_t keep_bytes)
{
	struct fake_block *block = pool->idle, *next;

	for (; block && reserved(pool) > keep_bytes; block = next) {
		next = block->queue_next;
		if (fake_deps_done(&block->ready))
			fake_block_free(block);
	}
}

static struct CUmemPoolHandle_st *pool_make(int device, bool is_default)
{
	struct CUmemPoolHandle_st *pool = fake_object_new(FAKE_MEMPOOL, sizeof(*pool));
	const struct fake_object object = pool ? pool->object : (struct fake_object){0};

	if (pool == NULL)
		return NULL;
	memset(pool, 0, sizeof(*pool));
	pool->object = object;
	pool->device = device;
	pool->is_default = is_default;
	pool->reuse[1] = pool->reuse[2] = pool->reuse[3] = 1;
	return pool;
}

static struct CUmemPoolHandle_st *default_pool(int device)
{
	struct fake_device *at = &fake_devices[device];

	if (at->default_pool == NULL)
		at->default_pool = pool_make(device, true);
	if (at->current_pool == NULL)
		at->current_pool = at->default_pool;
	return at->default_pool;
}

void fake_pools_settle(int device)
{
	struct fake_device *at = &fake_devices[device];

	if (at->default_pool)
		trim(at->default_pool, at->default_pool->threshold);
	if (at->current_pool && at->current_pool != at->default_pool)
		trim(at->current_pool, at->current_pool->threshold);
}

/* ---- allocation ---- */

static struct fake_block *reuse(struct CUmemPoolHandle_st *pool, size_t bytes,
				const struct CUstream_st *stream)
{
	struct fake_block *block;

	for (block = pool->idle; block; block = block->queue_next)
		if (round_up(block->bytes, 512) == round_up(bytes, 512) &&
		    (block->freed_on == stream->object.id || fake_deps_done(&block->ready)))
			break;
	if (block == NULL)
		return NULL;
	unidle(pool, block);
	fake_deps_clear(&block->ready);
	block->bytes = bytes;
	ledger(block, true);
	return block;
}

static struct fake_block *fresh(struct CUmemPoolHandle_st *pool, size_t bytes,
				struct CUctx_st *context, int *result)
{
	struct fake_block *block;
	const uint64_t rounded = round_up(bytes, 512);

	*result = OUT_OF_MEMORY;
	if (rounded < bytes || rounded > fake_settings.memory_bytes)
		return NULL;
	if (!hold(pool, rounded)) {
		trim(pool, 0);
		if (!hold(pool, rounded))
			return NULL;
	}
	block = fake_block_new(FAKECUDA_ASYNC, context->root, bytes, false, result);
	if (block == NULL) {
		let_go(pool, rounded);
		return NULL;
	}
	block->device = pool->device;
	block->owner = pool;
	return block;
}

static int alloc(enum fake_fn fn, uint64_t *dptr, size_t bytes, struct CUmemPoolHandle_st *pool,
		 bool has_pool, struct CUstream_st *handle)
{
	struct CUctx_st *context;
	struct CUstream_st *stream;
	struct fake_block *block;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (dptr == NULL || bytes == 0 || (has_pool && !fake_object_is(FAKE_MEMPOOL, pool)))
		return fake_leave(INVALID_VALUE);
	result = fake_stream_of(context, handle, fn, &stream);
	if (result != OK)
		return fake_leave(result);
	if (stream->capture)
		return fake_leave(fake_graph_allocate(stream, dptr, bytes));
	if (!has_pool && default_pool(context->device) != NULL)
		pool = fake_devices[context->device].current_pool;
	block = reuse(pool, bytes, stream);
	if (block == NULL)
		block = fresh(pool, bytes, context, &result);
	if (block == NULL)
		return fake_leave(result);
	pool->used_bytes += round_up(bytes, 512);
	if (pool->used_bytes > pool->used_high)
		pool->used_high = pool->used_bytes;
	*dptr = block->base;
	return fake_leave(OK);
}

static int on_cuMemAllocAsync(enum fake_fn fn, uint64_t *dptr, size_t bytes,
			      struct CUstream_st *stream)
{
	return alloc(fn, dptr, bytes, NULL, false, stream);
}
FAKE_TWINS(cuMemAllocAsync, _ptsz, (uint64_t * dptr, size_t bytes, struct CUstream_st *stream),
	   dptr, bytes, stream)

static int on_cuMemAllocFromPoolAsync(enum fake_fn fn, uint64_t *dptr, size_t bytes,
				      struct CUmemPoolHandle_st *pool, struct CUstream_st *stream)
{
	return alloc(fn, dptr, bytes, pool, true, stream);
}
FAKE_TWINS(cuMemAllocFromPoolAsync, _ptsz,
	   (uint64_t * dptr, size_t bytes, struct CUmemPoolHandle_st *pool,
	    struct CUstream_st *stream),
	   dptr, bytes, pool, stream)

static int free_block(struct fake_block *block, struct CUstream_st *stream)
{
	struct fake_work work = {.kind = WORK_FREE, .block = block, .block_id = block->id};

	if (stream->capture) {
		work.kind = WORK_GRAPH_FREE;
		return block->kind == FAKECUDA_GRAPH ? fake_submit(stream, &work) : INVALID_VALUE;
	}
	block->is_freeing = true;
	if (block->owner == NULL)
		/* of cuMemAlloc: allowed, and freed in the stream's order */
		return fake_submit(stream, &work);
	block->freed_on = stream->object.id;
	fake_deps_clear(&block->ready);
	fake_deps_add(&block->ready, stream, stream->submitted);
	make_idle(block);
	return OK;
}

static int on_cuMemFreeAsync(enum fake_fn fn, uint64_t dptr, struct CUstream_st *handle)
{
	struct CUctx_st *context;
	struct CUstream_st *stream;
	struct fake_block *block;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	result = fake_stream_of(context, handle, fn, &stream);
	if (result != OK)
		return fake_leave(result);
	block = fake_block_at(dptr);
	if (block == NULL || block->base != dptr || block->is_freeing || block->is_idle ||
	    block->is_reserved || block->kind > FAKECUDA_GRAPH) {
		fake_ledger.refused_frees++;
		return fake_leave(INVALID_VALUE);
	}
	return fake_leave(free_block(block, stream));
}
FAKE_TWINS(cuMemFreeAsync, _ptsz, (uint64_t dptr, struct CUstream_st *stream), dptr, stream)

/* ---- pools ---- */

static int get(enum fake_fn fn, struct CUmemPoolHandle_st **pool, int device, bool current)
{
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (pool == NULL)
		return fake_leave(INVALID_VALUE);
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	*pool = default_pool(device);
	if (current)
		*pool = fake_devices[device].current_pool;
	return fake_leave(OK);
}

int cuDeviceGetDefaultMemPool(struct CUmemPoolHandle_st **pool, int device)
{
	return get(FN_cuDeviceGetDefaultMemPool, pool, device, false);
}

int cuDeviceGetMemPool(struct CUmemPoolHandle_st **pool, int device)
{
	return get(FN_cuDeviceGetMemPool, pool, device, true);
}

int cuDeviceSetMemPool(int device, struct CUmemPoolHandle_st *pool)
{
	const int result = fake_enter(FN_cuDeviceSetMemPool, NULL);

	if (result != OK)
		return result;
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	if (!fake_object_is(FAKE_MEMPOOL, pool) || pool->device != device)
		return fake_leave(INVALID_VALUE);
	default_pool(device);
	fake_devices[device].current_pool = pool;
	return fake_leave(OK);
}

int cuMemPoolCreate(struct CUmemPoolHandle_st **pool, const struct fake_pool_props *props)
{
	const int result = fake_enter(FN_cuMemPoolCreate, NULL);

	if (result != OK)
		return result;
	if (pool == NULL || props == NULL || props->type != 1 || props->location.type != 1)
		return fake_leave(INVALID_VALUE);
	if (!fake_device_is(props->location.id))
		return fake_leave(INVALID_DEVICE);
	*pool = pool_make(props->location.id, false);
	return fake_leave(*pool ? OK : OUT_OF_MEMORY);
}

/* One that still has memory out stays until that is freed: here, for as long as the process. */
int cuMemPoolDestroy(struct CUmemPoolHandle_st *pool)
{
	const int result = fake_enter(FN_cuMemPoolDestroy, NULL);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_MEMPOOL, pool) || pool->is_default)
		return fake_leave(INVALID_VALUE);
	if (fake_devices[pool->device].current_pool == pool)
		fake_devices[pool->device].current_pool = fake_devices[pool->device].default_pool;
	trim(pool, 0);
	if (pool->held_bytes == 0)
		fake_object_free(FAKE_MEMPOOL, pool);
	return fake_leave(OK);
}

int cuMemPoolTrimTo(struct CUmemPoolHandle_st *pool, size_t keep_bytes)
{
	const int result = fake_enter(FN_cuMemPoolTrimTo, NULL);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_MEMPOOL, pool))
		return fake_leave(INVALID_VALUE);
	trim(pool, keep_bytes);
	return fake_leave(OK);
}

int cuMemPoolGetAttribute(struct CUmemPoolHandle_st *pool, int attribute, void *value)
{
	const int result = fake_enter(FN_cuMemPoolGetAttribute, NULL);
	uint64_t answer;

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_MEMPOOL, pool) || value == NULL || attribute < 1 ||
	    attribute > ATTR_USED_HIGH)
		return fake_leave(INVALID_VALUE);
	if (attribute < ATTR_THRESHOLD) {
		memcpy(value, &pool->reuse[attribute], sizeof(int));
		return fake_leave(OK);
	}
	answer = attribute == ATTR_THRESHOLD       ? pool->threshold
		 : attribute == ATTR_RESERVED      ? reserved(pool)
		 : attribute == ATTR_RESERVED_HIGH ? pool->held_high
		 : attribute == ATTR_USED          ? pool->used_bytes
						   : pool->used_high;
	memcpy(value, &answer, sizeof(answer));
	return fake_leave(OK);
}

int cuMemPoolSetAttribute(struct CUmemPoolHandle_st *pool, int attribute, void *value)
{
	const int result = fake_enter(FN_cuMemPoolSetAttribute, NULL);
	uint64_t given;

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_MEMPOOL, pool) || value == NULL || attribute < 1)
		return fake_leave(INVALID_VALUE);
	if (attribute < ATTR_THRESHOLD) {
		memcpy(&pool->reuse[attribute], value, sizeof(int));
		return fake_leave(OK);
	}
	memcpy(&given, value, sizeof(given));
	if (attribute == ATTR_THRESHOLD)
		pool->threshold = given;
	else if (attribute == ATTR_RESERVED_HIGH && given == 0)
		pool->held_high = reserved(pool);
	else if (attribute == ATTR_USED_HIGH && given == 0)
		pool->used_high = pool->used_bytes;
	else
		return fake_leave(INVALID_VALUE);
	return fake_leave(OK);
}
