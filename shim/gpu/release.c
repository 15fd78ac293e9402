#include "gpu/release.h"

#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/capture.h"
#include "gpu/fence.h"
#include "gpu/device_memory.h"
#include "gpu/usage.h"
#include "gpu/wait.h"

#define SETTLE_NS  MT_NS_PER_S
#define AWAIT_NS   (50 * MT_NS_PER_MS) /* for other threads */
#define READERS_NS (5 * MT_NS_PER_MS)
/* pending for longer, or for ten decays: the driver shall wait for it */
#define PENDING_MAX_NS (60 * MT_NS_PER_S)
#define HAND_OVER_MAX  32 /* blocks that one cuMemFree hands over */

/* The driver permits no call on this thread now: the block waits behind a fence again, like one
 * just freed. */
static bool take_in(struct mt_context *context, struct mt_block *block)
{
	bool is_in;

	mt_lock_lock(&context->lock);
	is_in = mt_fence_add(context, block, mt_os_coarse_ns());
	if (is_in)
		(void)mt_blocks_insert(block);
	mt_lock_unlock(&context->lock);
	return is_in;
}

/* Nothing of its context uses an idle block: it is freed in the order of a stream that has nothing
 * else to do. cuMemFree would wait for all that runs in the context meanwhile, which may be a host
 * function that waits for this very thread. A device without stream-ordered memory refuses; then
 * cuMemFree it is, and nothing more is cached there. */
static int free_now(struct mt_context *context, uint64_t base, bool is_idle)
{
	struct CUstream_st *stream = atomic_load_explicit(&context->stream, memory_order_acquire);
	int result;

	if (!is_idle || !stream)
		return mt_pool_driver()->cuMemFree_v2(base);
	result = mt_pool_driver()->cuMemFreeAsync(base, stream);
	if (result == MT_CU_SUCCESS)
		atomic_store_explicit(&context->has_unsettled, true, memory_order_seq_cst);
	if (mt_likely(result == MT_CU_SUCCESS) || result == MT_CU_NOT_PERMITTED)
		return result;
	if (result == MT_CU_NOT_SUPPORTED)
		atomic_store_explicit(&context->is_broken, true, memory_order_relaxed);
	return mt_pool_driver()->cuMemFree_v2(base);
}

/* For a thread that is out of memory or asks how much is free, and for the worker, which tells what
 * it gave back: until all of the stream's frees are done, most_ns at most. Some microseconds,
 * unless the driver lets two streams share a queue. */
static void await_stream(struct mt_context *context, bool is_background, uint64_t most_ns)
{
	struct CUstream_st *stream = atomic_load_explicit(&context->stream, memory_order_acquire);
	uint64_t start_ns = mt_os_now_ns();
	int result, answer = MT_CU_NOT_READY;
	bool was_pushed;

	if (!stream || atomic_load_explicit(&context->is_ending, memory_order_seq_cst))
		return;
	/* Before the question: a free that comes meanwhile sets it again. */
	atomic_store_explicit(&context->has_unsettled, false, memory_order_seq_cst);
	was_pushed = mt_context_enter(context, true, &result);
	for (unsigned round = 0;
	     result == MT_CU_SUCCESS &&
	     (answer = mt_pool_driver()->cuStreamQuery(stream)) == MT_CU_NOT_READY &&
	     mt_os_now_ns() - start_ns < most_ns &&
	     !(is_background && atomic_load_explicit(&mt_pool.holds_back, memory_order_relaxed));
	     round++)
		mt_wait_round(round);
	mt_context_exit(was_pushed);
	if (answer == MT_CU_NOT_READY)
		atomic_store_explicit(&context->has_unsettled, true, memory_order_seq_cst);
}

void mt_release_await(int device)
{
	uint64_t start_ns = mt_os_now_ns();

	for (unsigned round = 0; mt_os_now_ns() - start_ns < AWAIT_NS; round++) {
		uint32_t givers = 0;

		for (int i = 0; i < MT_POOL_DEVICES; i++)
			if (device == MT_ANY_DEVICE ||
			    &mt_pool.devices[i] == mt_pool_device(device))
				givers += atomic_load_explicit(&mt_pool.devices[i].givers,
							       memory_order_acquire);
		if (!givers)
			return;
		mt_wait_round(round);
	}
}

static MT_COLD void settle_stream(struct mt_context *context)
{
	uint32_t init = atomic_load_explicit(&context->init, memory_order_relaxed);
	int cancel, mode;

	if (!mt_context_hold(context, init))
		return;
	cancel = mt_wait_uncancelled();
	mode = mt_capture_relax(mt_pool_driver());
	if (mode != MT_CAPTURE_NOT_RELAXED || !mt_capture_is_open())
		await_stream(context, false, AWAIT_NS);
	mt_capture_restore(mt_pool_driver(), mode);
	mt_wait_cancellable(cancel);
	mt_context_drop(context);
}

uint32_t mt_pool_read_begin(int device)
{
	struct mt_pool_device *place = mt_pool_device(device);
	uint32_t releases;

	atomic_fetch_add_explicit(&place->readers, 1, memory_order_seq_cst);
	if (mt_unlikely(atomic_load_explicit(&place->givers, memory_order_seq_cst)))
		mt_release_await(device);
	releases = atomic_load_explicit(&place->releases, memory_order_seq_cst);
	MT_EACH_CONTEXT(context)
	{
		if (mt_context_device(context) == place &&
		    atomic_load_explicit(&context->has_unsettled, memory_order_seq_cst))
			settle_stream(context);
	}
	return releases;
}

bool mt_pool_read_end(int device, uint32_t releases)
{
	struct mt_pool_device *place = mt_pool_device(device);
	bool is_exact = atomic_load_explicit(&place->releases, memory_order_seq_cst) == releases &&
			!atomic_load_explicit(&place->givers, memory_order_seq_cst);

	atomic_fetch_sub_explicit(&place->readers, 1, memory_order_release);
	return is_exact;
}

/* The worker has time: a thread that reads how much is free goes first, so that it waits for one
 * block alone. */
static void let_readers_through(struct mt_pool_device *place)
{
	uint64_t start_ns = 0;

	for (unsigned round = 0; atomic_load_explicit(&place->readers, memory_order_seq_cst);
	     round++) {
		start_ns = start_ns ? start_ns : mt_os_now_ns();
		if (mt_os_now_ns() - start_ns > READERS_NS)
			return;
		mt_wait_round(round);
	}
}

/* Nothing runs any more in a context that an error has ended, and where it is current the driver
 * answers that error to every call: what it had is freed with the caller's context current. */
static int send_base(struct mt_context *context, uint64_t base, bool is_idle)
{
	bool was_pushed;
	int result;

	if (atomic_load_explicit(&context->is_gone, memory_order_relaxed))
		return mt_pool_driver()->cuMemFree_v2(base);
	was_pushed = mt_context_enter(context, true, &result);
	if (result == MT_CU_SUCCESS)
		result = free_now(context, base, is_idle);
	mt_context_exit(was_pushed);
	if (mt_likely(!mt_context_is_sticky(result)))
		return result;
	mt_context_note(context, result);
	/* The first to learn of it. */
	return atomic_load_explicit(&context->is_gone, memory_order_relaxed)
		       ? mt_pool_driver()->cuMemFree_v2(base)
		       : result;
}

/* The block is in no list and in no table any more. The context is held, and its end waits for us.
 * Bytes given back; *out_refused: not on this thread now. */
static uint64_t send(struct mt_context *context, struct mt_block *block, bool is_idle,
		     bool is_decay, bool *out_refused)
{
	uint64_t base = mt_block_base(block);
	uint64_t bytes = block->bytes;
	int result = send_base(context, base, is_idle);

	*out_refused = result == MT_CU_NOT_PERMITTED;
	if (*out_refused && take_in(context, block))
		return 0;
	if (result == MT_CU_SUCCESS)
		mt_device_memory_freed(mt_context_device(context), bytes);
	else if (mt_context_is_sticky(result))
		/* else: that one block is lost, the fences are as good as before */
		mt_context_note(context, result);
	mt_lock_lock(&context->lock);
	mt_counter_add(&context->counters.driver_frees, 1);
	mt_context_note_held(context, block, false);
	if (result == MT_CU_SUCCESS) {
		mt_counter_add(&context->counters.returned, bytes);
		mt_counter_add(&context->counters.decayed, is_decay ? bytes : 0);
	}
	atomic_store_explicit(&block->context, NULL, memory_order_relaxed);
	block->state = MT_BLOCK_UNUSED;
	mt_lock_unlock(&context->lock);
	mt_block_release(block);
	return result == MT_CU_SUCCESS ? bytes : 0;
}

static struct mt_block *leave(struct mt_block *block)
{
	block->state = MT_BLOCK_LEAVING;
	(void)mt_blocks_remove(block);
	return block;
}

static struct mt_block *pick_idle(struct mt_context *context, const struct mt_release *rule)
{
	struct mt_block *block = context->idle_line.first;

	if (!block || block->since_ns > rule->freed_until_ns)
		return NULL;
	mt_line_remove(&context->idle_line, block);
	mt_bins_remove(context->idle, block);
	mt_counter_add(&context->counters.idle, -block->bytes);
	mt_context_note_cached(context, block, false);
	return leave(block);
}

enum kind { IDLE, OWN_DONE, PENDING, LOST };

/* What is freed while a capture begins gets no fence until it ends. */
static bool has_no_fence(const struct mt_group *group)
{
	return group->is_lost || group->lacks_events ||
	       (!mt_group_is_recorded(group) && mt_capture_is_open());
}

static bool is_of(const struct mt_group *group, enum kind kind)
{
	return kind == PENDING || (kind == OWN_DONE ? group->is_own_done : has_no_fence(group));
}

static struct mt_block *pick_pending(struct mt_context *context, const struct mt_release *rule,
				     enum kind kind)
{
	struct mt_group *group = mt_fence_oldest(context);
	struct mt_block *block;

	while (group && !is_of(group, kind))
		group = group->next;
	if (!group || group->is_busy)
		return NULL;
	block = group->blocks.first;
	if (!block || block->since_ns > rule->freed_until_ns)
		return NULL;
	mt_fence_remove(context, block);
	return leave(block);
}

/* A driver that cannot be told that the call does not matter to captures: none may begin during it.
 */
static bool has_modes(void)
{
	return mt_pool_driver()->cuThreadExchangeStreamCaptureMode != NULL;
}

/* The context is held: who ends it sets is_ending before looking at who holds it. */
static bool enter(struct mt_context *context, const struct mt_release *rule)
{
	if (atomic_load_explicit(&context->is_ending, memory_order_seq_cst))
		return false;
	if (!has_modes())
		return mt_capture_enter();
	return rule->in_capture || !mt_capture_is_open();
}

static void leave_driver(void)
{
	if (!has_modes())
		mt_capture_leave();
}

static bool is_done(const struct mt_release *rule)
{
	return !rule->blocks || !rule->bytes ||
	       (rule->is_background &&
		atomic_load_explicit(&mt_pool.holds_back, memory_order_relaxed));
}

/* One block; 0 where there is none, or it could not go. */
static uint64_t give_one(struct mt_context *context, struct mt_release *rule, enum kind kind,
			 bool *out_is_last)
{
	struct mt_block *block;
	uint64_t bytes, given = 0;
	bool is_refused = false;

	mt_lock_lock(&context->lock);
	block = kind == IDLE ? pick_idle(context, rule) : pick_pending(context, rule, kind);
	mt_lock_unlock(&context->lock);
	bytes = block ? block->bytes : 0;
	if (block) {
		given = send(context, block, kind <= OWN_DONE, rule->is_decay, &is_refused);
		rule->blocks--;
		rule->bytes -= bytes < rule->bytes ? bytes : rule->bytes;
	}
	*out_is_last = !block || is_refused;
	return given;
}

static uint64_t give_some(struct mt_context *context, struct mt_release *rule, enum kind kind)
{
	struct mt_pool_device *place = mt_context_device(context);
	bool is_last = false, is_done_with = kind <= OWN_DONE;
	uint64_t given = 0;

	while (!is_last && !is_done(rule) && enter(context, rule)) {
		if (is_done_with) {
			if (rule->is_background)
				let_readers_through(place);
			atomic_fetch_add_explicit(&place->givers, 1, memory_order_seq_cst);
			atomic_fetch_add_explicit(&place->releases, 1, memory_order_seq_cst);
		}
		given += give_one(context, rule, kind, &is_last);
		if (is_done_with)
			atomic_fetch_sub_explicit(&place->givers, 1, memory_order_seq_cst);
		leave_driver();
	}
	if (is_done_with && (rule->in_capture || (rule->is_background && given)))
		await_stream(context, rule->is_background, SETTLE_NS);
	return given;
}

static uint64_t give(struct mt_context *context, struct mt_release *rule, enum kind kind)
{
	int cancel = mt_wait_uncancelled();
	int mode = mt_capture_relax(mt_pool_driver());
	uint64_t given = give_some(context, rule, kind);

	mt_capture_restore(mt_pool_driver(), mode);
	mt_wait_cancellable(cancel);
	return given;
}

uint64_t mt_release_idle(struct mt_context *context, struct mt_release *rule)
{
	return give(context, rule, IDLE);
}

uint64_t mt_release_pending(struct mt_context *context, struct mt_release *rule, bool only_lost)
{
	return give(context, rule, only_lost ? LOST : PENDING);
}

uint64_t mt_release_own_done(struct mt_context *context, struct mt_release *rule)
{
	return give(context, rule, OWN_DONE);
}

static uint64_t pending_max_ns(void)
{
	uint64_t ten = mt_counter(&mt_pool.decay_ms) * 10 * MT_NS_PER_MS;

	return ten > PENDING_MAX_NS ? ten : PENDING_MAX_NS;
}

static bool has_old(struct mt_context *context, uint64_t now_ns)
{
	const struct mt_group *group = mt_fence_oldest(context);

	return group && now_ns > group->opened_ns && now_ns - group->opened_ns > pending_max_ns();
}

uint64_t mt_release_excess(int device)
{
	uint64_t cap = mt_counter(&mt_pool.max_idle_bytes), pct = mt_counter(&mt_pool.max_idle_pct);
	uint64_t total = mt_counter(&mt_pool_device(device)->total_bytes), cached;

	if (pct < 100 && total && (!cap || total / 100 * pct < cap))
		cap = total / 100 * pct;
	else if (!cap)
		return 0;
	cached = mt_pool_cached_bytes(device);
	return cached > cap ? cached - cap : 0;
}

bool mt_release_is_overdue(struct mt_context *context, uint64_t now_ns)
{
	/* Without caps, which is the default, this is two looks. */
	return context->lost_groups > 0 || has_old(context, now_ns) ||
	       mt_counter(&mt_pool.max_idle_bytes) || mt_counter(&mt_pool.max_idle_pct) < 100;
}

void mt_release_overdue(struct mt_context *context, uint64_t now_ns)
{
	uint64_t max_ns = pending_max_ns();
	struct mt_release lost = {UINT64_MAX, UINT64_MAX, HAND_OVER_MAX, false, false, false};
	struct mt_release old = {now_ns > max_ns ? now_ns - max_ns : 0,
				 UINT64_MAX,
				 HAND_OVER_MAX,
				 false,
				 false,
				 false};
	int device = atomic_load_explicit(&context->device, memory_order_relaxed);
	struct mt_release over = {UINT64_MAX, mt_release_excess(device), UINT32_MAX, false, false,
				  false};
	uint32_t init = atomic_load_explicit(&context->init, memory_order_relaxed);

	if (!mt_context_hold(context, init))
		return;
	(void)mt_release_pending(context, &lost, true);
	(void)mt_release_pending(context, &old, false);
	if (over.bytes)
		(void)mt_release_idle(context, &over);
	mt_context_drop(context);
	MT_EACH_CONTEXT(other)
	{
		if (!over.bytes ||
		    atomic_load_explicit(&other->device, memory_order_relaxed) != device)
			continue;
		init = atomic_load_explicit(&other->init, memory_order_relaxed);
		if (other == context || !mt_context_hold(other, init))
			continue;
		(void)mt_release_idle(other, &over);
		mt_context_drop(other);
	}
	if (over.bytes && mt_context_hold(context, init = atomic_load_explicit(
							   &context->init, memory_order_relaxed))) {
		(void)mt_release_pending(context, &over, false);
		mt_context_drop(context);
	}
}

/* Everything idle of a device, up to a rule. */
static void give_back_device(int device, struct mt_release *rule)
{
	MT_EACH_CONTEXT(context)
	{
		uint32_t init = atomic_load_explicit(&context->init, memory_order_relaxed);

		if (atomic_load_explicit(&context->device, memory_order_relaxed) != device ||
		    !mt_context_hold(context, init))
			continue;
		(void)mt_release_idle(context, rule);
		mt_context_drop(context);
	}
}

void mt_release_collect(struct mt_context *context, uint64_t bytes)
{
	uint64_t permille = mt_counter(&mt_pool.gc_permille);
	uint64_t total = mt_counter(&mt_context_device(context)->total_bytes);
	struct mt_release rule = MT_RELEASE_ALL;
	struct mt_pool_usage usage;
	int device = atomic_load_explicit(&context->device, memory_order_relaxed);
	uint64_t allowed = total / 1000 * permille;

	if (mt_likely(permille == 0) || total == 0)
		return;
	mt_pool_usage(device, &usage);
	if (usage.reserved_bytes + bytes <= allowed)
		return;
	rule.bytes = usage.reserved_bytes + bytes - allowed;
	give_back_device(device, &rule);
}
