#include "gpu/block_alloc.h"

#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/fence.h"
#include "gpu/device_memory.h"
#include "gpu/shortage.h"
#include "gpu/usage.h"

void mt_block_alloc_hand_out(struct mt_context *context, struct mt_block *block,
			     uint64_t asked_bytes, uint64_t now_ns)
{
	struct mt_counters *counters = &context->counters;

	block->state = MT_BLOCK_LIVE;
	block->asked_bytes = asked_bytes;
	block->since_ns = now_ns;
	mt_counter_add(&counters->allocated, block->bytes);
	mt_counter_add(&counters->requested, asked_bytes);
	mt_counter_add(&counters->blocks, 1);
	mt_counter_add(&counters->allocs, 1);
	mt_usage_note_peaks(context);
}

/* A stale record with this address: its context or its memory went unseen. The lock of its context
 * is held. */
void mt_block_alloc_drop(struct mt_context *context, struct mt_block *block)
{
	struct mt_counters *counters = &context->counters;

	if (block->state == MT_BLOCK_LIVE) {
		mt_counter_add(&counters->allocated, -block->bytes);
		mt_counter_add(&counters->requested, -block->asked_bytes);
		mt_counter_add(&counters->blocks, (uint64_t)-1);
	} else if (block->state == MT_BLOCK_PENDING) {
		mt_fence_remove(context, block);
	} else if (block->state == MT_BLOCK_IDLE) {
		mt_bins_remove(context->idle, block);
		mt_line_remove(&context->idle_line, block);
		mt_counter_add(&counters->idle, -block->bytes);
		mt_context_note_cached(context, block, false);
	} else {
		return;
	}
	mt_context_note_held(context, block, false);
	atomic_store_explicit(&block->context, NULL, memory_order_relaxed);
	block->state = MT_BLOCK_UNUSED;
	mt_block_release(block);
}

static MT_COLD void drop_deferred(struct mt_block *stale)
{
	struct mt_context *other = atomic_load_explicit(&stale->context, memory_order_relaxed);

	if (!other)
		return;
	mt_lock_lock(&other->lock);
	if (atomic_load_explicit(&stale->context, memory_order_relaxed) == other)
		mt_block_alloc_drop(other, stale);
	mt_lock_unlock(&other->lock);
}

/* Records a block that the driver has just allocated. */
static void enter_record(struct mt_context *context, uint32_t init, struct mt_block *block)
{
	struct mt_block *stale = NULL;
	uint64_t now_ns = mt_os_coarse_ns();

	mt_device_memory_taken(mt_context_device(context), block->bytes);
	mt_lock_lock(&context->lock);
	if (atomic_load_explicit(&context->init, memory_order_relaxed) != init) {
		mt_lock_unlock(&context->lock);
		mt_block_release(block);
		return;
	}
	atomic_store_explicit(&block->context, context, memory_order_relaxed);
	block->bin = mt_bins_index(block->bytes);
	if (!context->is_counted)
		atomic_fetch_add_explicit(&mt_context_device(context)->allocators, 1,
					  memory_order_relaxed);
	context->is_counted = true;
	mt_block_alloc_hand_out(context, block, block->asked_bytes, now_ns);
	mt_counter_add(&context->counters.driver_allocs, 1);
	mt_context_note_held(context, block, true);
	stale = mt_blocks_insert(block);
	if (stale && atomic_load_explicit(&stale->context, memory_order_relaxed) == context) {
		mt_block_alloc_drop(context, stale);
		stale = NULL;
	}
	mt_lock_unlock(&context->lock);
	if (stale)
		drop_deferred(stale);
}

/* Tries again while the pool gives back. Where the rounded size does not fit, tries exactly what
 * was asked for: before the first wait, since the rounded size may never fit. */
static MT_COLD int try_short(int device, size_t asked_bytes, size_t *bytes, uint64_t *out_dptr)
{
	const struct mt_driver *driver = mt_pool_driver();
	struct mt_shortage shortage;
	int result = MT_CU_OUT_OF_MEMORY;

	if (mt_shortage_begin(&shortage, device, asked_bytes)) {
		while (result == MT_CU_OUT_OF_MEMORY && mt_shortage_next(&shortage)) {
			result = driver->cuMemAlloc_v2(out_dptr, *bytes);
			if (result != MT_CU_OUT_OF_MEMORY || *bytes == asked_bytes)
				continue;
			*bytes = asked_bytes;
			result = driver->cuMemAlloc_v2(out_dptr, asked_bytes);
		}
		mt_shortage_end(&shortage);
	}
	return result;
}

MT_COLD int mt_block_alloc_unknown(size_t bytes, uint64_t *out_dptr)
{
	const struct mt_driver *driver = mt_pool_driver();
	int result = driver->cuMemAlloc_v2(out_dptr, bytes);
	int device;

	if (result == MT_CU_OUT_OF_MEMORY && driver->cuCtxGetDevice &&
	    driver->cuCtxGetDevice(&device) == MT_CU_SUCCESS)
		result = try_short(device, bytes, &bytes, out_dptr);
	return result;
}

int mt_block_alloc(struct mt_context *context, size_t asked_bytes, size_t bytes, uint64_t *out_dptr)
{
	const struct mt_driver *driver = mt_pool_driver();
	uint32_t init = atomic_load_explicit(&context->init, memory_order_relaxed);
	struct mt_block *block = mt_block_reserve();
	uint64_t dptr = 0;
	int result = driver->cuMemAlloc_v2(&dptr, bytes);

	if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY))
		result = try_short(atomic_load_explicit(&context->device, memory_order_relaxed),
				   asked_bytes, &bytes, &dptr);
	mt_context_note_call(context, result);
	if (result == MT_CU_SUCCESS) {
		*out_dptr = dptr;
		if (block) {
			atomic_store_explicit(&block->node.key, dptr, memory_order_relaxed);
			block->bytes = bytes;
			block->asked_bytes = asked_bytes;
			enter_record(context, init, block);
		}
	} else if (block) {
		mt_block_release(block);
	}
	return result;
}
