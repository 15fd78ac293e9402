#include "gpu/pool.h"

#include <string.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/capture.h"

/* pending blocks that a search asks about: about a millisecond */
#define POLL_MAX 1024

/* ---- start, fork ---- */

static void forget_everything(void)
{
	mt_blocks_start();
	memset((void *)mt_pool.devices, 0, sizeof(mt_pool.devices));
	memset((void *)mt_pool.contexts, 0, sizeof(mt_pool.contexts));
	for (unsigned i = 0; i < MT_CONTEXTS; i++)
		mt_lock_set_rank(&mt_pool.contexts[i].lock, MT_RANK_context);
	mt_store_relaxed(&mt_pool.contexts_count, 0);
	mt_store_relaxed(&mt_pool.is_mixed, false);
	mt_store_relaxed(&mt_pool.is_joined, false);
	mt_lock_reset(&mt_pool.slots_lock);
}

MT_COLD void mt_pool_start(const struct mt_driver *driver, mt_pool_mode_fn mode)
{
	bool has_current = driver->cuCtxGetCurrent && driver->cuCtxPushCurrent_v2 &&
			   driver->cuCtxPopCurrent_v2;
	bool has_events = driver->cuCtxRecordEvent && driver->cuEventCreate &&
			  driver->cuEventQuery && driver->cuEventSynchronize &&
			  driver->cuThreadExchangeStreamCaptureMode;

	forget_everything();
	mt_store_relaxed(&mt_pool.mode, mode);
	mt_store_relaxed(&mt_pool.waits, false);
	mt_pool.can_fence = has_current && has_events;
	/* release: pairs with mt_pool_driver's acquire */
	mt_store_release(&mt_pool.driver, driver);
	mt_store_relaxed(&mt_pool.is_up, true);
}

MT_COLD void mt_pool_fork_child(void)
{
	mt_store_relaxed(&mt_pool.is_up, false);
}

/* ---- new blocks ---- */

static void raise_peak(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t seen = mt_load_relaxed(peak);

	while (value > seen &&
	       !atomic_compare_exchange_weak_explicit(peak, &seen, value, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* The context's lock is held; the counters of its device's other contexts are read without
 * theirs. */
static void note_peaks(struct mt_context *context)
{
	struct mt_pool_device *device = mt_context_device(context);
	struct mt_holdings now = mt_pool_holdings(mt_context_ordinal(context));

	raise_peak(&device->allocated_peak, now.allocated);
	raise_peak(&device->charged_peak, now.charged_live);
	raise_peak(&device->reserved_peak, now.allocated + now.pending + now.idle);
}

/* Marks the block as the program's. The context's lock is held. now_ns: the coarse clock, read
 * before the lock was taken. */
static void hand_out(struct mt_context *context, struct mt_block *block, uint64_t asked_bytes,
		     uint64_t now_ns)
{
	mt_assert(block->state != MT_BLOCK_LIVE && block->state != MT_BLOCK_BUSY);
	block->asked_bytes = asked_bytes;
	block->since_ns = now_ns;
	mt_block_move(context, block, MT_BLOCK_LIVE);
	mt_counter_add(&context->counters.alloc_count, 1);
	note_peaks(context);
}

/* A record with the address of a new block is stale: its context or its memory went unseen. */
static void drop_stale(uint64_t dptr)
{
	struct mt_context *context;
	struct mt_block *stale = mt_block_lock(dptr, &context);

	if (mt_likely(!stale))
		return;
	mt_block_move(context, stale,
		      stale->state == MT_BLOCK_BUSY ? MT_BLOCK_STALE : MT_BLOCK_UNUSED);
	mt_lock_unlock(&context->lock);
}

/* Records a block that the driver has just allocated. */
static void enter_record(struct mt_context *context, uint32_t init, struct mt_block *block)
{
	uint64_t now_ns = mt_os_coarse_ns();

	drop_stale(mt_block_base(block));
	mt_lock_lock(&context->lock);
	if (mt_likely(mt_context_init(context) == init)) {
		mt_store_relaxed(&block->context, context);
		block->bin = mt_bins_index(block->bytes);
		hand_out(context, block, block->asked_bytes, now_ns);
		mt_counter_add(&context->counters.num_device_alloc, 1);
	} else {
		mt_block_release(block);
	}
	mt_lock_unlock(&context->lock);
}

/* Allocates from the driver; if it is out of memory, again while the pool gives back
 * (gpu/release.c). bytes: asked_bytes rounded up. Without memory for a record, and without a known
 * context (NULL), the block stays unrecorded, and its free is the driver's. No lock is held.
 * Returns the driver's result. */
static int allocate(struct mt_context *context, size_t asked_bytes, size_t bytes,
		    uint64_t *out_dptr)
{
	const struct mt_driver *driver = mt_pool_driver();
	uint32_t init = context ? mt_context_init(context) : MT_NO_INIT;
	struct mt_block *block = context ? mt_block_reserve() : NULL;
	int device = context ? mt_context_ordinal(context) : MT_ANY_DEVICE;
	uint64_t dptr = 0;
	int result = driver->cuMemAlloc_v2(&dptr, bytes);

	if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY))
		result = mt_pool_again(device, bytes, driver->cuMemAlloc_v2(&dptr, bytes));
	if (context)
		mt_context_note_call(context, result);
	if (result == MT_CU_SUCCESS) {
		*out_dptr = dptr;
		if (block) {
			mt_store_relaxed(&block->node.key, dptr);
			block->bytes = bytes;
			block->asked_bytes = asked_bytes;
			enter_record(context, init, block);
		}
	} else if (block) {
		mt_block_release(block);
	}
	return result;
}

/* ---- alloc ---- */

/* Takes a fitting block that is ready, or becomes so since its work is done. */
static bool take(struct mt_context *context, uint64_t rounded, size_t bytes, uint64_t *out_dptr)
{
	uint64_t now_ns = mt_os_coarse_ns();
	struct mt_block *block;

	mt_lock_lock(&context->lock);
	block = mt_bins_find(context->idle, rounded);
	for (int i = 0; !block && i < POLL_MAX && mt_pending_poll(context, 1); i++)
		block = mt_bins_find(context->idle, rounded);
	if (block) {
		mt_counter_add(&context->counters.hit_count, 1);
		hand_out(context, block, bytes, now_ns);
		*out_dptr = mt_block_base(block);
	}
	mt_lock_unlock(&context->lock);
	return block != NULL;
}

/* Returns whether an error has ended the current context, or forbids calls here: the driver's own
 * allocation then replies with it. Asked by the stream in which nothing but frees of idle blocks
 * runs. */
static bool has_error(struct mt_context *context)
{
	struct CUstream_st *stream = mt_load_acquire(&context->stream);
	int result;

	if (!stream || !mt_capture_gate_enter())
		return false;
	result = mt_pool_driver()->cuStreamQuery(stream);
	mt_capture_gate_leave();
	if (mt_likely(result == MT_CU_SUCCESS || result == MT_CU_NOT_READY))
		return false;
	mt_context_note_result(context, result);
	return true;
}

int mt_pool_alloc(uint64_t *out_dptr, size_t bytes)
{
	struct mt_context *context;
	uint64_t rounded;

	if (mt_unlikely(!mt_pool_is_up() || !out_dptr || bytes == 0))
		return mt_pool_driver()->cuMemAlloc_v2(out_dptr, bytes);
	context = mt_context_current();
	if (mt_unlikely(!context || !mt_context_pools(context)))
		return allocate(context, bytes, bytes, out_dptr);
	if (mt_unlikely(mt_capture_is_open())) {
		mt_release_make_room(context, bytes, 0);
		return allocate(context, bytes, bytes, out_dptr);
	}
	rounded = mt_bins_round(bytes);
	if (mt_unlikely(rounded == 0 || has_error(context)))
		return allocate(context, bytes, bytes, out_dptr);
	if (mt_likely(take(context, rounded, bytes, out_dptr)))
		return MT_CU_SUCCESS;
	mt_release_make_room(context, rounded, rounded);
	return allocate(context, bytes, rounded, out_dptr);
}

/* ---- free ---- */

/* Frees a live or busy block, whose free is counted, by the driver's own cuMemFree. Called with
 * context->lock held; releases it before the call of the driver. The record leaves the table before
 * the call, since another thread may get the address the moment that the call returns. It comes
 * back if the driver refuses. */
static MT_COLD int free_directly(struct mt_context *context, struct mt_block *block)
{
	uint32_t init = mt_context_init(context);
	uint64_t dptr = mt_block_base(block);
	int result;

	mt_assert(block->state == MT_BLOCK_LIVE || block->state == MT_BLOCK_BUSY);
	mt_block_move(context, block, MT_BLOCK_LEAVING);
	mt_lock_unlock(&context->lock);
	result = mt_pool_driver()->cuMemFree_v2(dptr);
	mt_lock_lock(&context->lock);
	mt_counter_add(&context->counters.num_device_free, 1);
	if (result != MT_CU_SUCCESS && mt_context_init(context) == init) {
		mt_counter_add(&context->counters.free_count, (uint64_t)-1);
		mt_counter_add(&context->counters.alloc_count, (uint64_t)-1);
		hand_out(context, block, block->asked_bytes, block->since_ns);
	} else {
		mt_block_release(block);
	}
	mt_lock_unlock(&context->lock);
	mt_context_note_call(context, result);
	return result;
}

bool mt_pool_free(uint64_t dptr, int *out_result)
{
	uint64_t now_ns = mt_os_coarse_ns(), bytes;
	struct mt_context *context;
	struct mt_block *block = mt_block_lock(dptr, &context);
	enum mt_fence_status status = MT_FENCE_LOST;

	if (!block)
		return false;
	if (mt_unlikely(block->state != MT_BLOCK_LIVE)) {
		mt_lock_unlock(&context->lock);
		*out_result = mt_context_may_call() ? MT_CU_INVALID_VALUE : MT_CU_NOT_PERMITTED;
		return true;
	}
	mt_counter_add(&context->counters.free_count, 1);
	bytes = block->bytes;
	block->since_ns = now_ns;
	if (mt_likely(!block->is_non_recyclable && mt_context_pools(context) &&
		      bytes % MT_BIN_UNIT == 0 && !mt_context_has_shortage(context)))
		status = mt_fence_settle(context, block, mt_load_relaxed(&mt_pool.waits));
	/* An error, a capture, or another context: the driver's own free replies. */
	if (mt_unlikely(status == MT_FENCE_LOST)) {
		*out_result = free_directly(context, block);
		return true;
	}
	*out_result = MT_CU_SUCCESS;
	if (mt_likely(!context->needs_room)) {
		mt_lock_unlock(&context->lock);
		return true;
	}
	context->needs_room = false;
	mt_lock_unlock(&context->lock);
	mt_release_make_room(context, 0, bytes);
	return true;
}

/* ---- questions about a block ---- */

bool mt_pool_range(uint64_t base, size_t *out_bytes, bool *out_cached)
{
	struct mt_context *context;
	struct mt_block *block = mt_block_lock(base, &context);

	if (!block)
		return false;
	*out_bytes = block->asked_bytes;
	*out_cached = block->state != MT_BLOCK_LIVE;
	mt_lock_unlock(&context->lock);
	return true;
}

MT_COLD void mt_pool_mark_non_recyclable(uint64_t base)
{
	struct mt_context *context;
	struct mt_block *block = mt_block_lock(base, &context);

	if (!block)
		return;
	block->is_non_recyclable = true;
	mt_lock_unlock(&context->lock);
}

MT_COLD bool mt_pool_disown(uint64_t dptr)
{
	struct mt_context *context;
	struct mt_block *block = mt_block_lock(dptr, &context);
	bool is_live = block && block->state == MT_BLOCK_LIVE;

	if (is_live) {
		mt_counter_add(&context->counters.free_count, 1);
		mt_counter_add(&context->counters.num_device_free, 1);
		mt_block_move(context, block, MT_BLOCK_UNUSED);
	}
	if (block)
		mt_lock_unlock(&context->lock);
	return is_live;
}

/* ---- modes ---- */

MT_COLD void mt_pool_update_mode(void)
{
	if (!mt_pool_is_up() || mt_context_ask_mode() == MT_POOL_POOL)
		return;
	MT_EACH_CONTEXT(context)
	{
		uint8_t pools = MT_POOL_POOL;

		(void)atomic_compare_exchange_strong_explicit(&context->mode, &pools,
							      MT_POOL_ACCOUNT, memory_order_relaxed,
							      memory_order_relaxed);
	}
}

/* ---- usage ---- */

static void add(struct mt_pool_usage *out, struct mt_counters *from)
{
#define X(name) out->name += mt_load_relaxed(&from->name);
	MT_CONTEXT_HOLDINGS(X)
	MT_CONTEXT_TOTALS(X)
#undef X
}

void mt_pool_usage(int number, struct mt_pool_usage *out)
{
	struct mt_pool_device *device = mt_pool_device(number);

	memset(out, 0, sizeof(*out));
	add(out, &device->past);
	MT_EACH_CONTEXT(context)
	{
		if (mt_context_device(context) == device)
			add(out, &context->counters);
	}
	out->reserved_bytes = out->allocated_bytes + out->pending_bytes + out->idle_bytes;
	out->allocated_peak_bytes = mt_load_relaxed(&device->allocated_peak);
	out->reserved_peak_bytes = mt_load_relaxed(&device->reserved_peak);
	out->num_alloc_retries = mt_load_relaxed(&device->retries);
	out->num_ooms = mt_load_relaxed(&device->ooms);
}

uint64_t mt_pool_cached_bytes(int number)
{
	struct mt_holdings now = mt_pool_holdings(number);

	return now.pending + now.idle;
}

uint64_t mt_pool_withheld_bytes(int number)
{
	struct mt_holdings now = mt_pool_holdings(number);

	return now.charged - now.charged_live;
}

void mt_pool_reset_peak(void)
{
	for (int number = 0; mt_pool_is_up() && number < MT_POOL_DEVICES; number++) {
		struct mt_pool_device *device = &mt_pool.devices[number];
		struct mt_holdings now = mt_pool_holdings(number);

		mt_store_relaxed(&device->allocated_peak, now.allocated);
		mt_store_relaxed(&device->charged_peak, now.charged_live);
		mt_store_relaxed(&device->reserved_peak, now.allocated + now.pending + now.idle);
	}
}

enum mt_pool_mode mt_pool_mode_of(int number)
{
	enum mt_pool_mode most = MT_POOL_UNDECIDED;

	MT_EACH_CONTEXT(context)
	{
		enum mt_pool_mode does = mt_context_mode(context);

		if (does == MT_POOL_POOL && !mt_context_pools(context))
			does = MT_POOL_ACCOUNT;
		if (mt_context_handle(context) &&
		    mt_context_device(context) == mt_pool_device(number) && does > most)
			most = does;
	}
	return most;
}

bool mt_pool_is_used(void)
{
	return mt_load_acquire(&mt_pool.contexts_count) > 0;
}

/* ---- what a device has left ---- */

bool mt_pool_read_memory(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes)
{
	size_t free_bytes = 0, total_bytes = 0;
	int mode, result = MT_CU_NOT_FOUND;

	if (!mt_pool_is_up() || !mt_pool_driver()->cuMemGetInfo_v2)
		return false;
	mode = mt_driver_relax(mt_pool_driver());
	MT_EACH_HELD_CONTEXT(context, device)
	{
		bool was_pushed;

		if (result == MT_CU_SUCCESS || mt_context_health(context) >= MT_CONTEXT_DEAD ||
		    mt_context_is_ending(context))
			continue;
		was_pushed = mt_context_push(context, &result);
		if (result == MT_CU_SUCCESS)
			result = mt_pool_driver()->cuMemGetInfo_v2(&free_bytes, &total_bytes);
		mt_context_pop(was_pushed);
	}
	mt_driver_restore(mt_pool_driver(), mode);
	if (result == MT_CU_SUCCESS) {
		*out_free_bytes = free_bytes;
		*out_total_bytes = total_bytes;
	}
	return result == MT_CU_SUCCESS;
}
