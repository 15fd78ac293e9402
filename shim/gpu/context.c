#include "gpu/context.h"

#include <string.h>

#include "sys/os.h"

#define REST_NS (2 * MT_NS_PER_S)

struct mt_pool mt_pool = {.slots_lock = MT_LOCK(slots)};

/* The slot that this thread used last: a hint, its handle is compared each time. */
static MT_TLS struct mt_context *last_used;

/* Returns the known context with this handle, or NULL. */
static struct mt_context *find_context(struct CUctx_st *handle)
{
	MT_EACH_CONTEXT(context)
	{
		if (mt_load_acquire(&context->handle) == handle)
			return context;
	}
	return NULL;
}

static void measure(struct mt_pool_device *device, int ordinal)
{
	size_t total = 0;

	if (mt_load_relaxed(&device->total_bytes) != 0 || !mt_pool_driver()->cuDeviceTotalMem_v2)
		return;
	if (mt_pool_driver()->cuDeviceTotalMem_v2(&total, ordinal) == MT_CU_SUCCESS)
		mt_store_relaxed(&device->total_bytes, total);
}

/* Registers a context, which need not be current. Returns NULL if no slot is left. */
static MT_COLD struct mt_context *add_context(struct CUctx_st *handle, int device)
{
	struct mt_context *found = find_context(handle);

	if (found)
		return found;
	measure(mt_pool_device(device), device);
	mt_lock_lock(&mt_pool.slots_lock);
	found = find_context(handle);
	for (struct mt_context *slot = mt_pool.contexts;
	     !found && slot < mt_pool.contexts + MT_CONTEXTS; slot++) {
		uint32_t count = (uint32_t)(slot - mt_pool.contexts) + 1;

		if (mt_context_handle(slot))
			continue;
		found = slot;
		mt_lock_lock(&slot->lock);
		mt_store_relaxed(&slot->mode, MT_POOL_UNDECIDED);
		mt_store_relaxed(&slot->health, MT_CONTEXT_WELL);
		mt_store_relaxed(&slot->is_ending, false);
		mt_store_relaxed(&slot->stream, NULL);
		mt_store_relaxed(&slot->device, device);
		mt_store_relaxed(&slot->is_primary, false);
		/* release: pairs with the acquire of find_context */
		mt_store_release(&slot->handle, handle);
		mt_lock_unlock(&slot->lock);
		mt_assert(count <= MT_CONTEXTS);
		if (count > mt_load_relaxed(&mt_pool.contexts_count))
			mt_store_release(&mt_pool.contexts_count, count);
	}
	mt_lock_unlock(&mt_pool.slots_lock);
	if (!found)
		mt_store_relaxed(&mt_pool.is_mixed, true);
	return found;
}

MT_COLD struct CUctx_st *mt_context_primary(int device)
{
	const struct mt_driver *driver = mt_pool_driver();
	struct CUctx_st *primary = NULL;

	if (!driver->cuDevicePrimaryCtxRetain ||
	    !driver->cuDevicePrimaryCtxRelease_v2 || /* CUDA 11.0 */
	    mt_driver_primary_state(driver, device) != 1 ||
	    driver->cuDevicePrimaryCtxRetain(&primary, device) != MT_CU_SUCCESS)
		return NULL;
	(void)driver->cuDevicePrimaryCtxRelease_v2(device);
	return primary;
}

/* Returns whether the primary context of its device is this one, or not active. */
static MT_COLD bool has_no_other_primary(struct mt_context *context)
{
	struct CUctx_st *primary = mt_context_primary(mt_context_ordinal(context));

	if (primary && primary == mt_context_handle(context))
		mt_store_relaxed(&context->is_primary, true);
	return !primary || mt_load_relaxed(&context->is_primary);
}

bool mt_context_is_single(struct mt_context *context)
{
	struct CUctx_st *current = NULL;

	if (mt_load_relaxed(&mt_pool.is_mixed) ||
	    mt_pool_driver()->cuCtxGetCurrent(&current) != MT_CU_SUCCESS ||
	    current != mt_context_handle(context))
		return false;
	MT_EACH_CONTEXT(other)
	{
		if (other != context && mt_context_handle(other) &&
		    mt_context_health(other) < MT_CONTEXT_DEAD &&
		    (mt_load_relaxed(&mt_pool.is_joined) ||
		     mt_context_device(other) == mt_context_device(context)))
			return false;
	}
	return mt_likely(mt_load_relaxed(&context->is_primary)) || has_no_other_primary(context);
}

/* Returns whether it is the calling thread's current context. */
static bool is_current(const struct mt_context *context)
{
	struct CUctx_st *current = NULL;

	return mt_pool_driver()->cuCtxGetCurrent(&current) == MT_CU_SUCCESS &&
	       current == mt_context_handle(context);
}

MT_COLD enum mt_pool_mode mt_context_ask_mode(void)
{
	mt_pool_mode_fn ask = mt_load_relaxed(&mt_pool.mode);
	bool waits = false;
	enum mt_pool_mode wanted = ask ? ask(&waits) : MT_POOL_POOL;

	mt_store_relaxed(&mt_pool.waits, waits);
	return wanted;
}

/* Creates the stream in which idle blocks are freed: cuMemFree may wait for what runs in the
 * context, and that may wait for the program. It is created before there is anything to cache,
 * since a full device may have no memory for it. False: pool nothing. */
static MT_COLD bool make_stream(struct mt_context *context)
{
	const struct mt_driver *driver = mt_pool_driver();
	struct CUstream_st *stream = NULL;
	int mode, result;

	if (!driver->cuMemFreeAsync || !driver->cuStreamCreate || !driver->cuStreamQuery)
		return true; /* no driver with cuCtxRecordEvent lacks them */
	mode = mt_driver_relax(mt_pool_driver());
	result = driver->cuStreamCreate(&stream, MT_CU_STREAM_NON_BLOCKING);
	mt_driver_restore(mt_pool_driver(), mode);
	if (result == MT_CU_SUCCESS)
		mt_store_release(&context->stream, stream);
	return result == MT_CU_SUCCESS;
}

/* They stay with the slot. */
static MT_COLD bool map_bins(struct mt_context *context)
{
	bool has_bins;

	mt_lock_lock(&context->lock);
	if (!context->idle)
		context->idle = mt_slab_map(sizeof(struct mt_bins));
	has_bins = context->idle != NULL;
	mt_lock_unlock(&context->lock);
	return has_bins;
}

/* At its first allocation. */
static MT_COLD void decide(struct mt_context *context)
{
	enum mt_pool_mode wanted = mt_context_ask_mode();
	uint8_t undecided = MT_POOL_UNDECIDED;
	uint8_t mode = MT_POOL_POOL;

	if (wanted == MT_POOL_ACCOUNT || !mt_pool.can_fence || mt_load_relaxed(&mt_pool.is_mixed) ||
	    !map_bins(context))
		mode = MT_POOL_ACCOUNT;
	if (atomic_compare_exchange_strong_explicit(&context->mode, &undecided, mode,
						    memory_order_relaxed, memory_order_relaxed) &&
	    mode == MT_POOL_POOL && !make_stream(context))
		mt_store_relaxed(&context->mode, MT_POOL_ACCOUNT);
}

/* Finds the current context, or registers it. */
static struct mt_context *look_for(struct CUctx_st *current)
{
	const struct mt_driver *driver = mt_pool_driver();
	struct mt_context *context = find_context(current);
	int device = 0;

	if (context || (driver->cuCtxGetDevice && driver->cuCtxGetDevice(&device) != MT_CU_SUCCESS))
		return context;
	return add_context(current, device);
}

struct mt_context *mt_context_current(void)
{
	const struct mt_driver *driver = mt_pool_driver();
	struct mt_context *context = last_used;
	struct CUctx_st *handle = NULL;

	if (mt_unlikely(!driver->cuCtxGetCurrent) ||
	    driver->cuCtxGetCurrent(&handle) != MT_CU_SUCCESS || !handle)
		return NULL;
	if (mt_likely(context && mt_load_acquire(&context->handle) == handle &&
		      mt_context_mode(context) != MT_POOL_UNDECIDED))
		return context;
	context = look_for(handle);
	if (context && mt_context_mode(context) == MT_POOL_UNDECIDED)
		decide(context);
	last_used = context;
	return context;
}

bool mt_context_hold(struct mt_context *context)
{
	bool is_alive;

	mt_lock_lock(&context->lock);
	is_alive = mt_context_handle(context) != NULL;
	context->users += is_alive;
	mt_lock_unlock(&context->lock);
	return is_alive;
}

struct mt_context *mt_context_next(struct mt_context *held, int device)
{
	const struct mt_context *end = mt_pool.contexts + mt_load_acquire(&mt_pool.contexts_count);
	struct mt_context *context = held ? held + 1 : mt_pool.contexts;

	if (held)
		mt_context_drop(held);
	for (; context < end; context++)
		if (mt_context_is_on(context, device) && mt_context_hold(context))
			return context;
	return NULL;
}

void mt_context_drop(struct mt_context *context)
{
	mt_lock_lock(&context->lock);
	mt_assert(context->users > 0);
	context->users--;
	mt_lock_unlock(&context->lock);
}

bool mt_context_push(struct mt_context *context, int *out_result)
{
	*out_result = MT_CU_SUCCESS;
	if (is_current(context))
		return false;
	*out_result = mt_pool_driver()->cuCtxPushCurrent_v2(mt_context_handle(context));
	return *out_result == MT_CU_SUCCESS;
}

void mt_context_pop(bool was_pushed)
{
	struct CUctx_st *popped;

	if (was_pushed)
		(void)mt_pool_driver()->cuCtxPopCurrent_v2(&popped);
}

/* What a result says of the context. After DEAD and GONE its work is done or dropped: by the
 * driver's manual the process must end, or the context does not exist; 711 to 713 and 720 leave it
 * as it was. */
static enum mt_context_health health_after(int result)
{
	switch (result) {
	case MT_CU_SUCCESS:
	case MT_CU_NOT_READY:
	case MT_CU_OUT_OF_MEMORY:
	case MT_CU_NOT_PERMITTED:
		return MT_CONTEXT_WELL;
	case MT_CU_NOT_INITIALIZED:
	case MT_CU_DEINITIALIZED:
	case MT_CU_INVALID_CONTEXT:
	case MT_CU_CONTEXT_IS_DESTROYED:
		return MT_CONTEXT_GONE;
	case MT_CU_ILLEGAL_ADDRESS:
	case 702: /* launch timeout */
	case 710: /* assert */
		return MT_CONTEXT_DEAD;
	default:
		/* hardware stack, illegal instruction, misaligned, address space, pc, launch failed
		 */
		return result >= 714 && result <= 719 ? MT_CONTEXT_DEAD : MT_CONTEXT_BROKEN;
	}
}

bool mt_context_is_sticky(int result)
{
	/* CUDA_ERROR_UNKNOWN: the work may still run */
	return health_after(result) >= MT_CONTEXT_DEAD || result == 999;
}

MT_COLD void mt_context_worsen(struct mt_context *context, enum mt_context_health health)
{
	uint8_t seen = mt_load_relaxed(&context->health);

	while (health > seen &&
	       !atomic_compare_exchange_weak_explicit(&context->health, &seen, (uint8_t)health,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

MT_COLD void mt_context_note_result(struct mt_context *context, int result)
{
	if (result == MT_CU_DEINITIALIZED)
		mt_store_relaxed(&mt_pool.is_up, false);
	mt_context_worsen(context, health_after(result));
}

MT_COLD void mt_context_note_call(struct mt_context *context, int result)
{
	/* 709 is about the thread's own stack: a destroyed context there may have had the handle
	 * that this one has now. */
	if (result != MT_CU_DEINITIALIZED &&
	    (!mt_context_is_sticky(result) || result < MT_CU_ILLEGAL_ADDRESS ||
	     result == MT_CU_CONTEXT_IS_DESTROYED))
		return;
	if (result == MT_CU_DEINITIALIZED || is_current(context))
		mt_context_note_result(context, result);
}

bool mt_context_may_call(void)
{
	static MT_TLS bool may_call;
	struct CUctx_st *current;

	if (mt_unlikely(!may_call))
		may_call = mt_pool_driver()->cuCtxGetCurrent &&
			   mt_pool_driver()->cuCtxGetCurrent(&current) != MT_CU_NOT_PERMITTED;
	return may_call;
}

/* ---- blocks ---- */

static struct mt_lock table_lock = MT_LOCK(blocks);
static struct mt_pointer_table table;
static struct mt_slab records = MT_SLAB(struct mt_block);

MT_COLD void mt_blocks_start(void)
{
	table.buckets = NULL; /* they stay mapped */
	(void)mt_pointer_table_map(&table);
	records = (struct mt_slab)MT_SLAB(struct mt_block);
}

struct mt_block *mt_block_reserve(void)
{
	struct mt_block *block = table.buckets ? mt_slab_alloc(&records) : NULL;

	if (block) {
		block->event = NULL;
		block->is_non_recyclable = false;
	}
	return block;
}

void mt_block_release(struct mt_block *block)
{
	mt_assert(!block->event);
	mt_store_relaxed(&block->context, NULL);
	block->state = MT_BLOCK_UNUSED;
	mt_slab_free(&records, block);
}

struct mt_block *mt_block_lock(uint64_t base, struct mt_context **out_context)
{
	while (mt_likely(mt_pool_is_up())) {
		struct mt_context *context;
		struct mt_block *block;

		mt_lock_lock(&table_lock);
		block = (struct mt_block *)mt_pointer_table_find(&table, base);
		mt_lock_unlock(&table_lock);
		if (!block)
			return NULL;
		context = mt_block_context(block);
		if (!context)
			continue; /* it is leaving: look again */
		mt_lock_lock(&context->lock);
		if (mt_block_context(block) == context && mt_block_base(block) == base &&
		    block->state >= MT_BLOCK_LIVE) {
			*out_context = context;
			return block;
		}
		mt_lock_unlock(&context->lock);
	}
	return NULL;
}

/* Counts a block in its state, or with a sign of -1 no longer. */
static inline void count(struct mt_counters *counters, const struct mt_block *block, uint64_t sign)
{
	bool is_live = block->state == MT_BLOCK_LIVE;
	_Atomic uint64_t *bytes =
		block->state == MT_BLOCK_IDLE ? &counters->idle_bytes : &counters->pending_bytes;

	if (is_live) {
		bytes = &counters->allocated_bytes;
		mt_counter_add(&counters->requested_bytes, sign * block->asked_bytes);
		mt_counter_add(&counters->blocks_count, sign);
	}
	mt_assert(sign == 1 || mt_load_relaxed(bytes) >= block->bytes);
	mt_counter_add(bytes, sign * block->bytes);
	mt_counter_add(block->bytes < MT_BIN_SMALL ? &counters->small[is_live]
						   : &counters->pages[is_live],
		       sign * mt_block_charge(block));
}

static void set_known(struct mt_block *block, bool is_known)
{
	mt_lock_lock(&table_lock);
	if (is_known)
		(void)mt_pointer_table_insert(&table, &block->node);
	else
		(void)mt_pointer_table_remove(&table, &block->node);
	mt_lock_unlock(&table_lock);
}

void mt_block_move(struct mt_context *context, struct mt_block *block, enum mt_block_state to)
{
	enum mt_block_state from = (enum mt_block_state)block->state;
	bool was_known = from >= MT_BLOCK_LIVE, is_known = to >= MT_BLOCK_LIVE;

	if (was_known)
		count(&context->counters, block, (uint64_t)-1);
	if (from == MT_BLOCK_IDLE) {
		mt_bins_remove(context->idle, block);
		mt_line_remove(&context->idle_line, block);
	} else if (from == MT_BLOCK_PENDING) {
		mt_line_remove(&context->pending_line, block);
	}
	if (to == MT_BLOCK_BUSY && !block->event) {
		block->event = context->free_events;
		if (block->event)
			context->free_events = block->event->next;
	} else if (block->event && to != MT_BLOCK_BUSY && to != MT_BLOCK_STALE) {
		block->event->next = context->free_events;
		context->free_events = block->event;
		block->event = NULL;
	}
	block->state = (uint8_t)to;
	if (to == MT_BLOCK_IDLE) {
		mt_bins_add(context->idle, block);
		mt_line_insert(&context->idle_line, block, context->idle_line.last);
	}
	if (is_known)
		count(&context->counters, block, 1);
	if (was_known != is_known)
		set_known(block, is_known);
	if (to == MT_BLOCK_UNUSED)
		mt_block_release(block);
}

MT_COLD void mt_blocks_each(void (*visit)(struct mt_block *block, void *data), void *data)
{
	const struct mt_chunk *chunk;
	char *end;

	mt_lock_lock(&records.lock);
	/* The newest chunk is the first, and filled as far as `fresh`. */
	chunk = records.chunks;
	end = records.fresh;
	mt_lock_unlock(&records.lock);
	for (; chunk; chunk = chunk->next, end = chunk ? chunk->end : NULL)
		for (char *at = chunk->objects; at != end; at += sizeof(struct mt_block))
			visit((struct mt_block *)(void *)at, data);
}

/* ---- contexts begin and end ---- */

/* Only where blocks are pooled need a context be known before it allocates. */
static bool can_know(void)
{
	return mt_pool_is_up() && mt_pool.can_fence && mt_pool_driver()->cuCtxGetDevice;
}

MT_COLD void mt_context_created(struct CUctx_st *context, int device)
{
	if (!context || !can_know())
		return;
	if (find_context(context)) /* it ended unseen */
		mt_context_ended(context, MT_ANY_INIT);
	(void)add_context(context, device);
}

void mt_context_register(void)
{
	struct CUctx_st *current = NULL;

	if (can_know() && mt_pool_driver()->cuCtxGetCurrent(&current) == MT_CU_SUCCESS && current)
		(void)look_for(current);
}

MT_COLD void mt_context_join_devices(void)
{
	mt_store_relaxed(&mt_pool.is_joined, true);
	mt_context_register();
}

/* All but `context` of a block is read under its context's lock, and this one's is held. */
static void forget_block(struct mt_block *block, void *of)
{
	struct mt_context *context = of;

	if (mt_block_context(block) != context || block->state == MT_BLOCK_LEAVING)
		return;
	mt_assert(block->state != MT_BLOCK_BUSY && block->state != MT_BLOCK_STALE);
	mt_block_move(context, block, MT_BLOCK_UNUSED);
}

/* Waits until no thread is in the context of that `init`, and takes both locks. Returns false,
 * without locks, if it has ended meanwhile. A thread inside may need the lock `slots` before it
 * leaves (add_context), so that no lock is held over the wait. The driver has ended the context, so
 * that calls there return. If one has not within 2 s, the context stays as one that is gone: its
 * blocks are given up without a call to the driver, and nothing more is pooled in the process, as
 * another context may have the handle. */
static bool lock_single(struct mt_context *context, uint32_t init)
{
	uint64_t start_ns = mt_os_now_ns();

	for (unsigned round = 0;; round++) {
		mt_lock_lock(&mt_pool.slots_lock);
		mt_lock_lock(&context->lock);
		if (!mt_context_handle(context) || mt_context_init(context) != init)
			break;
		mt_context_worsen(context, MT_CONTEXT_BROKEN);
		if (context->users == 0)
			return true;
		if (mt_os_now_ns() - start_ns > REST_NS) {
			mt_context_worsen(context, MT_CONTEXT_GONE);
			mt_store_relaxed(&mt_pool.is_mixed, true);
			break;
		}
		mt_lock_unlock(&context->lock);
		mt_lock_unlock(&mt_pool.slots_lock);
		mt_driver_wait_round(round);
	}
	mt_lock_unlock(&context->lock);
	mt_lock_unlock(&mt_pool.slots_lock);
	return false;
}

static struct mt_context *find(struct CUctx_st *handle)
{
	return mt_pool_is_up() && handle ? find_context(handle) : NULL;
}

MT_COLD void mt_context_ended(struct CUctx_st *handle, uint32_t init)
{
	struct mt_context *context = find(handle);
	struct mt_pool_device *device;

	if (!context ||
	    !lock_single(context, init == MT_ANY_INIT ? mt_context_init(context) : init))
		return;
	device = mt_context_device(context);
	mt_blocks_each(forget_block, context);
	mt_fence_forget_events(context);
	mt_assert(!context->idle_line.first && !context->pending_line.first);
	mt_assert(context->users == 0);
	/* The device keeps the sums that never fall. */
#define X(name) mt_add_relaxed(&device->past.name, mt_load_relaxed(&context->counters.name));
	MT_CONTEXT_TOTALS(X)
#undef X
	memset((void *)&context->counters, 0, sizeof(context->counters));
	mt_add_relaxed(&context->init, 1);
	mt_store_release(&context->handle, NULL);
	mt_lock_unlock(&context->lock);
	mt_lock_unlock(&mt_pool.slots_lock);
}

MT_COLD uint32_t mt_context_pause(struct CUctx_st *handle)
{
	struct mt_context *context = find(handle);
	uint64_t start_ns = mt_os_now_ns();
	uint32_t users = 1, init = 0;

	if (!context)
		return MT_NO_INIT;
	mt_store_seq(&context->is_ending, true);
	for (unsigned round = 0; users && mt_os_now_ns() - start_ns < REST_NS; round++) {
		mt_lock_lock(&context->lock);
		users = context->users;
		init = mt_context_init(context);
		mt_lock_unlock(&context->lock);
		if (users)
			mt_driver_wait_round(round);
	}
	return init;
}

MT_COLD void mt_context_resume(struct CUctx_st *handle)
{
	struct mt_context *context = find(handle);

	if (context)
		mt_store_relaxed(&context->is_ending, false);
}
