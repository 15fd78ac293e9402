#include "gpu/context_lifecycle.h"

#include <string.h>

#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/context.h"
#include "gpu/fence.h"
#include "gpu/wait.h"

#define REST_NS (2 * MT_NS_PER_S)

/* Only a context that can be fenced need be registered before it allocates. */
static bool can_know(void)
{
	return mt_pool_is_up() && mt_pool.can_fence && mt_pool_driver()->cuCtxGetDevice;
}

MT_COLD void mt_context_created(struct CUctx_st *context, int device)
{
	struct mt_context *last = context ? mt_context_find(context) : NULL;

	if (!context || !can_know())
		return;
	if (last) /* it ended unseen */
		mt_context_destroyed(context);
	(void)mt_context_add(context, device, false);
}

MT_COLD void mt_context_register(struct CUctx_st *context)
{
	struct CUctx_st *popped;
	int device = -1;

	if (!context || !can_know() || mt_context_find(context) ||
	    mt_pool_driver()->cuCtxPushCurrent_v2(context) != MT_CU_SUCCESS)
		return;
	if (mt_pool_driver()->cuCtxGetDevice(&device) == MT_CU_SUCCESS)
		(void)mt_context_add(context, device, false);
	(void)mt_pool_driver()->cuCtxPopCurrent_v2(&popped);
}

void mt_context_register_current(void)
{
	struct CUctx_st *context = NULL;
	int device = -1;

	if (!can_know() || mt_pool_driver()->cuCtxGetCurrent(&context) != MT_CU_SUCCESS ||
	    !context || mt_context_find(context))
		return;
	if (mt_pool_driver()->cuCtxGetDevice(&device) == MT_CU_SUCCESS)
		(void)mt_context_add(context, device, false);
}

static int device_of(struct CUctx_st *context)
{
	struct mt_context *known;

	mt_context_register(context);
	known = mt_context_find(context);
	return known ? mt_context_ordinal(known) : MT_ANY_DEVICE;
}

MT_COLD void mt_context_note_peers(struct CUctx_st *user, struct CUctx_st *peer)
{
	int from = device_of(user), to = device_of(peer);

	if (from != MT_ANY_DEVICE && to != MT_ANY_DEVICE)
		mt_context_note_use(from, to);
}

/* All but `context` of a block is read under its context's lock, and this one's is held. */
static void forget_blocks(struct mt_context *context)
{
	struct mt_block_walk walk = mt_blocks_walk_start();
	struct mt_block *block;

	while ((block = mt_blocks_walk_next(&walk))) {
		if (atomic_load_explicit(&block->context, memory_order_relaxed) != context ||
		    block->state == MT_BLOCK_LEAVING)
			continue;
		(void)mt_blocks_remove(block);
		mt_block_release(block);
	}
}

/* The device keeps the sums that never fall. The lock is held. */
static void fold(struct mt_context *context)
{
	struct mt_counters *past = &mt_context_device(context)->past;

#define X(name)                                                                                    \
	atomic_fetch_add_explicit(&past->name, mt_counter(&context->counters.name),                \
				  memory_order_relaxed);                                           \
	atomic_store_explicit(&context->counters.name, 0, memory_order_relaxed);
	MT_CONTEXT_COUNTERS(X)
#undef X
	if (context->is_counted)
		atomic_fetch_sub_explicit(&mt_context_device(context)->allocators, 1,
					  memory_order_relaxed);
	context->is_counted = false;
	atomic_store_explicit(&past->allocated, 0, memory_order_relaxed);
	atomic_store_explicit(&past->requested, 0, memory_order_relaxed);
	atomic_store_explicit(&past->pending, 0, memory_order_relaxed);
	atomic_store_explicit(&past->idle, 0, memory_order_relaxed);
	atomic_store_explicit(&past->blocks, 0, memory_order_relaxed);
	atomic_store_explicit(&past->small, 0, memory_order_relaxed);
	atomic_store_explicit(&past->small_cached, 0, memory_order_relaxed);
	atomic_store_explicit(&past->pages_cached, 0, memory_order_relaxed);
}

/* Waits until no thread is in the context of that `init`, and takes both locks. Returns false,
 * without locks, where it has ended meanwhile. A thread inside may need the lock `slots` before it
 * leaves (mt_context_add), so that no lock is held over the wait. */
static bool lock_single(struct mt_context *context, uint32_t init)
{
	for (unsigned round = 0;; round++) {
		mt_lock_lock(&mt_pool.slots_lock);
		mt_lock_lock(&context->lock);
		if (!atomic_load_explicit(&context->handle, memory_order_relaxed) ||
		    atomic_load_explicit(&context->init, memory_order_relaxed) != init)
			break;
		mt_flag_set(&context->is_broken, true);
		if (context->users == 0)
			return true;
		mt_lock_unlock(&context->lock);
		mt_lock_unlock(&mt_pool.slots_lock);
		mt_wait_round(round);
	}
	mt_lock_unlock(&context->lock);
	mt_lock_unlock(&mt_pool.slots_lock);
	return false;
}

/* Forgets the context of that init and all its blocks. */
static void forget_context(struct mt_context *context, uint32_t init)
{
	int cancel = mt_wait_uncancelled();

	if (!lock_single(context, init)) {
		mt_wait_cancellable(cancel);
		return;
	}
	mt_fence_forget_context(context);
	forget_blocks(context);
	if (context->idle) {
		memset(context->idle, 0, sizeof(*context->idle));
		memset(context->pending, 0, sizeof(*context->pending));
	}
	context->idle_line = (struct mt_block_line){0};
	fold(context);
	atomic_fetch_add_explicit(&context->init, 1, memory_order_relaxed);
	atomic_store_explicit(&context->handle, NULL, memory_order_release);
	mt_lock_unlock(&context->lock);
	mt_lock_unlock(&mt_pool.slots_lock);
	mt_wait_cancellable(cancel);
}

static struct mt_context *find(struct CUctx_st *handle)
{
	return mt_pool_is_up() && handle ? mt_context_find(handle) : NULL;
}

MT_COLD void mt_context_destroyed(struct CUctx_st *handle)
{
	struct mt_context *context = find(handle);

	if (context)
		forget_context(context, atomic_load_explicit(&context->init, memory_order_acquire));
}

MT_COLD void mt_context_ended(struct CUctx_st *handle, uint32_t init)
{
	struct mt_context *context = find(handle);

	if (context)
		forget_context(context, init);
}

MT_COLD uint32_t mt_context_pause(struct CUctx_st *handle)
{
	struct mt_context *context = find(handle);
	uint64_t start_ns = mt_os_now_ns();
	uint32_t users = 1, init = 0;

	if (!context)
		return 0;
	atomic_store_explicit(&context->is_ending, true, memory_order_seq_cst);
	for (unsigned round = 0; users && mt_os_now_ns() - start_ns < REST_NS; round++) {
		mt_lock_lock(&context->lock);
		users = context->users;
		init = atomic_load_explicit(&context->init, memory_order_relaxed);
		mt_lock_unlock(&context->lock);
		if (users)
			mt_wait_round(round);
	}
	return init;
}

MT_COLD void mt_context_resume(struct CUctx_st *handle)
{
	struct mt_context *context = find(handle);

	if (context)
		atomic_store_explicit(&context->is_ending, false, memory_order_relaxed);
}
