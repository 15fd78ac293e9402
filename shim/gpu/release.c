/* gpu/release.c -- when cached blocks go back to the driver, and how (gpu/pool.h). */
#include "core/config.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "sys/saturating.h"
#include "gpu/capture.h"
#include "gpu/pool.h"

#define STREAM_NS  MT_NS_PER_S
#define OTHERS_NS  (50 * MT_NS_PER_MS) /* for other threads that free a block */
#define READERS_NS (5 * MT_NS_PER_MS)
/* above the program's peak: a quarter, and 64 MB if a free does not wait */
#define CAP_SHARE   4
#define CAP_BYTES   (64 * MT_MIB)
#define CAP_WAIT_NS (100 * MT_NS_PER_MS) /* then the driver's cuMemFree waits */
/* of the worker: */
#define POLL_MAX   1024  /* blocks queried in one pass */
#define PENDING_MS 100u  /* run again while something is pending */
#define AGAIN_MS   10u   /* run again while more is due */
#define WATCH_MS   1000u /* measure the device's free memory, with decay off */
/* out of memory: */
#define OOM_WAIT_NS   (10 * MT_NS_PER_S) /* for pending blocks, and for threads that free one */
#define MORE_TRIES    16                 /* while other threads release, and nothing is pending */
#define UNKNOWN_SHARE 8                  /* of the free memory: is_enough_cached */

/* Nothing of its context uses an idle block, so that it is freed in a stream that has nothing else
 * to do. cuMemFree would wait for all that runs in the context, which may be a host function that
 * waits for this thread. A device without stream-ordered memory refuses: then cuMemFree it is, and
 * nothing more is cached there. */
static int free_in_order(struct mt_context *context, uint64_t base, bool is_idle)
{
	struct CUstream_st *stream = mt_load_acquire(&context->stream);
	int result;

	if (!is_idle || !stream)
		return mt_pool_driver()->cuMemFree_v2(base);
	result = mt_pool_driver()->cuMemFreeAsync(base, stream);
	if (mt_likely(result == MT_CU_SUCCESS))
		return result;
	if (result == MT_CU_NOT_SUPPORTED)
		mt_context_worsen(context, MT_CONTEXT_BROKEN);
	return mt_pool_driver()->cuMemFree_v2(base);
}

/* Waits until all frees of the stream are done, up to 1 s. Some microseconds, unless the driver
 * lets two streams share a queue. */
static void wait_for_stream(struct mt_context *context, bool is_background)
{
	struct CUstream_st *stream = mt_load_acquire(&context->stream);
	uint64_t start_ns = mt_os_now_ns();
	bool was_pushed;
	int result;

	if (!stream || mt_context_is_ending(context))
		return;
	was_pushed = mt_context_push(context, &result);
	for (unsigned round = 0; result == MT_CU_SUCCESS &&
				 mt_pool_driver()->cuStreamQuery(stream) == MT_CU_NOT_READY &&
				 mt_os_now_ns() - start_ns < STREAM_NS &&
				 !(is_background && mt_load_relaxed(&mt_pool.pauses_release));
	     round++)
		mt_driver_wait_round(round);
	mt_context_pop(was_pushed);
}

/* Waits until no other thread is freeing a block, up to limit_ns: some microseconds, unless the
 * machine or the driver is busy. Such a thread waits for nothing else. device: MT_ANY_DEVICE for
 * all. */
static void wait_for_others(int device, uint64_t limit_ns)
{
	uint64_t start_ns = mt_os_now_ns();

	for (unsigned round = 0; mt_os_now_ns() - start_ns < limit_ns; round++) {
		uint32_t releasing_count = 0;

		for (int i = 0; i < MT_POOL_DEVICES; i++)
			if (device == MT_ANY_DEVICE ||
			    &mt_pool.devices[i] == mt_pool_device(device))
				releasing_count +=
					mt_load_acquire(&mt_pool.devices[i].releasing_count);
		if (!releasing_count)
			return;
		mt_driver_wait_round(round);
	}
}

uint32_t mt_pool_read_begin(int number)
{
	struct mt_pool_device *device = mt_pool_device(number);

	atomic_fetch_add(&device->readers, 1);
	if (mt_unlikely(mt_load_seq(&device->releasing_count)))
		wait_for_others(number, OTHERS_NS);
	return mt_load_seq(&device->releases);
}

bool mt_pool_read_end(int number, uint32_t releases)
{
	struct mt_pool_device *device = mt_pool_device(number);
	bool is_exact = mt_load_seq(&device->releases) == releases &&
			!mt_load_seq(&device->releasing_count);

	mt_assert(mt_load_relaxed(&device->readers) > 0);
	atomic_fetch_sub_explicit(&device->readers, 1, memory_order_release);
	return is_exact;
}

/* A thread that reads the free memory goes before the worker. */
static void wait_for_readers(const struct mt_pool_device *device)
{
	uint64_t start_ns = mt_os_now_ns();

	for (unsigned round = 0;
	     mt_load_seq(&device->readers) && mt_os_now_ns() - start_ns < READERS_NS; round++)
		mt_driver_wait_round(round);
}

/* Nothing runs in a context that an error has ended, and where it is current the driver returns
 * that error for every call: its blocks are freed with the caller's context current. If the context
 * itself is gone, so are its blocks, and the address may be another block's: then the result is
 * MT_CU_INVALID_VALUE. */
static int free_base(struct mt_context *context, uint64_t base, bool is_idle)
{
	bool is_dead = mt_context_health(context) >= MT_CONTEXT_DEAD;
	int result;
	bool was_pushed = mt_context_push(context, &result);

	if (result == MT_CU_SUCCESS && !is_dead)
		result = free_in_order(context, base, is_idle);
	mt_context_pop(was_pushed);
	if (mt_likely(!is_dead && !mt_context_is_sticky(result)))
		return result;
	mt_context_note_result(context, result);
	if (mt_context_health(context) == MT_CONTEXT_GONE)
		return MT_CU_INVALID_VALUE;
	return mt_context_health(context) == MT_CONTEXT_DEAD ? mt_pool_driver()->cuMemFree_v2(base)
							     : result;
}

/* Frees a block that is in no list and no table. The context is held, and its end waits for us.
 * Returns the bytes; 0: the driver refused. One that it refuses in a context that an error has
 * ended stays cached: a thread with another context current may free it, or the end of its own
 * does. Any other is lost, and the fences stay valid. */
static uint64_t free_block(struct mt_context *context, struct mt_block *block,
			   const struct mt_release *rule)
{
	uint64_t bytes = block->bytes;
	int result = free_base(context, mt_block_base(block), !rule->is_pending);
	bool is_free = result == MT_CU_SUCCESS;

	mt_lock_lock(&context->lock);
	if (is_free) {
		mt_counter_add(&context->counters.returned_bytes, bytes);
		mt_counter_add(&context->counters.decayed_bytes, rule->is_decay ? bytes : 0);
	}
	if (!is_free && mt_context_health(context) >= MT_CONTEXT_DEAD &&
	    result != MT_CU_INVALID_VALUE) {
		mt_block_move(context, block, MT_BLOCK_IDLE);
	} else {
		mt_counter_add(&context->counters.num_device_free, 1);
		mt_block_move(context, block, MT_BLOCK_UNUSED);
	}
	mt_lock_unlock(&context->lock);
	return is_free ? bytes : 0;
}

/* The context is held: its end sets is_ending before it looks at its users. */
static bool is_over(struct mt_context *context, const struct mt_release *rule)
{
	return !rule->blocks || !rule->bytes || mt_context_is_ending(context) ||
	       (rule->is_background &&
		(mt_load_relaxed(&mt_pool.pauses_release) || mt_capture_is_open()));
}

/* Releases the oldest block of the rule; 0: there is none, or the driver refused. */
static uint64_t release_one(struct mt_context *context, struct mt_release *rule)
{
	struct mt_block *block;

	mt_assert(rule->blocks > 0 && rule->bytes > 0);
	mt_lock_lock(&context->lock);
	block = rule->is_pending ? context->pending_line.first : context->idle_line.first;
	if (block && block->since_ns > rule->freed_until_ns)
		block = NULL;
	if (block)
		mt_block_move(context, block, MT_BLOCK_LEAVING);
	mt_lock_unlock(&context->lock);
	if (!block)
		return 0;
	rule->blocks--;
	rule->bytes = mt_sat_sub(rule->bytes, mt_block_charge(block));
	return free_block(context, block, rule);
}

/* In rounds: until the rule says stop, the driver refuses, or a thread reads the free memory. The
 * memory is the driver's at the end of a round. A pending block, for whose work the driver's free
 * may wait, is not counted: no other thread waits for it. */
/* Releases blocks of a held context, oldest first, until the rule says stop or a capture begins.
 * Returns the bytes; counts down the rule's bytes and blocks. */
static uint64_t release(struct mt_context *context, struct mt_release *rule)
{
	struct mt_pool_device *device = mt_context_device(context);
	int cancel = mt_driver_forbid_cancel(), mode = mt_driver_relax(mt_pool_driver());
	bool ends = is_over(context, rule);
	uint32_t counts = !rule->is_pending;
	uint64_t released_bytes = 0;

	while (!ends) {
		if (rule->is_background)
			wait_for_readers(device);
		atomic_fetch_add(&device->releasing_count, counts);
		atomic_fetch_add(&device->releases, counts);
		do {
			uint64_t bytes = release_one(context, rule);

			released_bytes += bytes;
			ends = !bytes || is_over(context, rule);
		} while (!ends && !(rule->is_background && mt_load_seq(&device->readers)));
		if (released_bytes)
			wait_for_stream(context, rule->is_background);
		mt_assert(mt_load_relaxed(&device->releasing_count) >= counts);
		atomic_fetch_sub(&device->releasing_count, counts);
	}
	mt_driver_restore(mt_pool_driver(), mode);
	mt_driver_allow_cancel(cancel);
	return released_bytes;
}

/* ---- the cap ---- */

/* Returns by how many bytes, in the driver's pages, all blocks of the context's device would exceed
 * its cap if the program allocated `bytes` more: a share above the largest that the program has
 * held, these bytes included, and more if a free does not wait. */
static uint64_t over_cap(const struct mt_context *context, uint64_t bytes)
{
	const struct mt_pool_device *device = mt_context_device(context);
	struct mt_holdings now = mt_pool_holdings(mt_context_ordinal(context));
	uint64_t more = mt_bins_pages(bytes);
	uint64_t most = mt_max_u64(mt_load_relaxed(&device->charged_peak), now.charged_live + more);
	uint64_t pending = mt_load_relaxed(&mt_pool.waits) ? 0 : CAP_BYTES;

	return mt_bins_pages(mt_sat_sub(now.charged + more, most + most / CAP_SHARE + pending));
}

/* Returns whether the next block of this size would pass the cap, and none is idle for it. A free
 * that waits leaves nothing to wait for. */
static bool lacks_idle(const struct mt_context *context, uint64_t bytes)
{
	return !mt_load_relaxed(&mt_pool.waits) &&
	       mt_load_relaxed(&context->counters.pending_bytes) &&
	       mt_load_relaxed(&context->counters.idle_bytes) < bytes && over_cap(context, bytes);
}

static MT_COLD void wait_for_oldest(struct mt_context *context, uint64_t bytes)
{
	struct mt_release one = mt_release_all();
	uint64_t start_ns = mt_os_now_ns();

	if (!mt_context_hold(context))
		return;
	one.blocks = 1;
	one.is_pending = true;
	for (unsigned round = 0; lacks_idle(context, bytes); round++) {
		mt_pending_check(context, UINT32_MAX);
		if (mt_os_now_ns() - start_ns > CAP_WAIT_NS) {
			(void)release(context, &one);
			break;
		}
		mt_driver_wait_round(round);
	}
	mt_context_drop(context);
}

void mt_release_make_room(struct mt_context *context, uint64_t bytes, uint64_t next_bytes)
{
	struct mt_release rule = mt_release_all();

	if (mt_unlikely(lacks_idle(context, next_bytes)))
		wait_for_oldest(context, next_bytes);
	rule.bytes = over_cap(context, bytes);
	if (mt_likely(!rule.bytes))
		return;
	MT_EACH_HELD_CONTEXT(of, mt_context_ordinal(context))
	{
		(void)release(of, &rule);
	}
}

/* ---- the worker ---- */

/* Returns whether less of the device is free than the settings demand for a cache. The context is
 * held. */
static bool is_low(const struct mt_context *context)
{
	uint64_t pct = mt_config()->cuda_low_pct, free_bytes, total_bytes;

	return pct && mt_pool_read_memory(mt_context_ordinal(context), &free_bytes, &total_bytes) &&
	       free_bytes < total_bytes / 100 * pct;
}

/* Releases the idle blocks of the context that are due; counts `limit` down. */
static uint64_t release_due(struct mt_context *context, uint64_t now_ns, uint32_t *limit)
{
	uint64_t decay_ns = mt_config()->cuda_decay_ms * MT_NS_PER_MS, released_bytes;
	struct mt_release rule = mt_release_all();

	mt_pending_check(context, POLL_MAX);
	if (mt_load_relaxed(&context->counters.idle_bytes) == 0)
		return 0;
	rule.blocks = *limit;
	rule.is_background = true;
	rule.is_decay =
		mt_context_pools(context) && !mt_context_has_shortage(context) && !is_low(context);
	if (rule.is_decay)
		rule.freed_until_ns = decay_ns ? mt_sat_sub(now_ns, decay_ns) : 0;
	released_bytes = release(context, &rule);
	*limit = rule.blocks;
	return released_bytes;
}

static uint64_t next_ms(struct mt_context *context, uint64_t now_ns, uint32_t limit)
{
	uint64_t decay_ms = mt_config()->cuda_decay_ms;
	uint64_t next = UINT64_MAX;

	mt_lock_lock(&context->lock);
	if (context->idle_line.first) {
		uint64_t freed_ns = context->idle_line.first->since_ns;
		uint64_t age_ms = now_ns > freed_ns ? (now_ns - freed_ns) / MT_NS_PER_MS : 0;

		next = decay_ms == 0       ? WATCH_MS
		       : age_ms < decay_ms ? decay_ms - age_ms + 1
					   : AGAIN_MS;
		if (next > WATCH_MS && mt_config()->cuda_low_pct)
			next = WATCH_MS;
		if (!mt_context_pools(context) || mt_context_has_shortage(context))
			next = AGAIN_MS;
	}
	/* Those of a broken context wait for the program's next call, not for the worker. */
	if (context->pending_line.first && mt_context_health(context) == MT_CONTEXT_WELL &&
	    next > PENDING_MS)
		next = PENDING_MS;
	mt_lock_unlock(&context->lock);
	return limit == 0 && next > AGAIN_MS ? AGAIN_MS : next;
}

uint64_t mt_pool_tick(uint64_t now_ns, uint32_t limit, uint64_t *out_next_ms)
{
	uint64_t released_bytes = 0;

	*out_next_ms = UINT64_MAX;
	if (!mt_pool_is_up())
		return 0;
	if (mt_capture_is_open()) {
		*out_next_ms = PENDING_MS;
		return 0;
	}
	MT_EACH_HELD_CONTEXT(context, MT_ANY_DEVICE)
	{
		uint64_t next;

		if (!mt_load_relaxed(&context->counters.idle_bytes) &&
		    !mt_load_relaxed(&context->counters.pending_bytes))
			continue;
		/* no context is current here: free_block */
		if (mt_context_health(context) == MT_CONTEXT_DEAD)
			continue;
		if (limit > 0)
			released_bytes += release_due(context, now_ns, &limit);
		next = next_ms(context, now_ns, limit);
		*out_next_ms = next < *out_next_ms ? next : *out_next_ms;
	}
	return released_bytes;
}

/* Releases what is ready. For the program also what can never be known to be ready: by the driver's
 * own free, since the program called it. */
static uint64_t release_ready(int device, bool is_background)
{
	uint64_t released_bytes = 0;

	MT_EACH_HELD_CONTEXT(context, device)
	{
		struct mt_release all = mt_release_all();

		all.is_background = is_background;
		mt_pending_check(context, UINT32_MAX);
		released_bytes += release(context, &all);
		all.is_pending = true;
		if (!is_background && mt_context_health(context) != MT_CONTEXT_WELL)
			(void)release(context, &all);
	}
	return released_bytes;
}

uint64_t mt_pool_trim(int device)
{
	return mt_pool_is_up() && !mt_capture_is_open() ? release_ready(device, true) : 0;
}

/* ---- out of memory ---- */

/* A context that no longer pools may still have cached blocks. */
static bool has_pool(int device)
{
	MT_EACH_CONTEXT(context)
	{
		if (mt_context_is_on(context, device) &&
		    (mt_context_mode(context) == MT_POOL_POOL ||
		     mt_load_relaxed(&context->counters.idle_bytes) ||
		     mt_load_relaxed(&context->counters.pending_bytes)))
			return true;
	}
	return false;
}

static void count_shortage(int device, uint32_t delta)
{
	for (int i = 0; i < MT_POOL_DEVICES; i++)
		if (device == MT_ANY_DEVICE || &mt_pool.devices[i] == mt_pool_device(device))
			atomic_fetch_add(&mt_pool.devices[i].shortages, delta);
}

MT_COLD bool mt_pool_shortage_begin(struct mt_pool_shortage *shortage, int device, uint64_t bytes)
{
	struct mt_context *current;
	uint64_t total;
	bool pools;

	if (!mt_pool_is_up())
		return false;
	current = device < 0 ? mt_context_current() : NULL;
	device = current ? mt_context_ordinal(current) : device;
	total = device == MT_ANY_DEVICE ? 0 : mt_load_relaxed(&mt_pool_device(device)->total_bytes);
	pools = mt_pool_is_used() && has_pool(device);
	*shortage = (struct mt_pool_shortage){.device = device, .bytes = bytes, .has_own = pools};
	if ((total && bytes > total) || (!pools && !mt_gpu_rescue_is_possible()))
		return false;
	shortage->cancel = mt_driver_forbid_cancel();
	count_shortage(device, 1);
	if (device != MT_ANY_DEVICE && pools)
		mt_add_relaxed(&mt_pool_device(device)->retries, 1);
	shortage->released_count = UINT64_MAX; /* at first there is more in any case */
	shortage->start_ns = mt_os_now_ns();
	return true;
}

MT_COLD void mt_pool_shortage_end(struct mt_pool_shortage *shortage)
{
	mt_gpu_rescue_end(&shortage->rescue);
	mt_assert(shortage->device == MT_ANY_DEVICE ||
		  mt_load_relaxed(&mt_pool_device(shortage->device)->shortages) > 0);
	count_shortage(shortage->device, (uint32_t)-1);
	mt_driver_allow_cancel(shortage->cancel);
}

/* Returns false if all that is cached is too little beside what is free: no need to wait for it.
 * A call of unknown size that fails beside eight times as much free memory fails for another
 * reason. */
static bool is_enough_cached(const struct mt_pool_shortage *shortage)
{
	uint64_t free_bytes = 0, total_bytes = 0, cached;
	int device = shortage->device;

	if (device == MT_ANY_DEVICE || !mt_pool_read_memory(device, &free_bytes, &total_bytes))
		return true;
	cached = mt_pool_withheld_bytes(device);
	return shortage->bytes ? free_bytes + cached >= shortage->bytes
			       : cached >= free_bytes / UNKNOWN_SHARE;
}

/* Returns whether more has reached the driver since the last time. */
static bool has_released_more(struct mt_pool_shortage *shortage)
{
	uint64_t released_count;

	wait_for_others(shortage->device, OOM_WAIT_NS);
	released_count = mt_pool_holdings(shortage->device).frees_count;
	if (released_count == shortage->released_count)
		return false;
	shortage->released_count = released_count;
	return true;
}

/* Releases what this process holds. Waits while enough is pending, as the program's own
 * cuMemFree would have waited: what is freed from now on goes to the driver. The first try comes in
 * any case: another thread may have freed between the failed call and the begin. Returns false if
 * another try is useless: nothing was pending before the last look, so that no other thread's
 * question has made a block idle since. */
static bool release_own(struct mt_pool_shortage *shortage)
{
	for (unsigned round = 0;; round++) {
		bool is_early = mt_os_now_ns() - shortage->start_ns < OOM_WAIT_NS;
		bool may_wait = is_early && mt_pool_holdings(shortage->device).pending != 0 &&
				is_enough_cached(shortage);

		(void)release_ready(shortage->device, false);
		if (has_released_more(shortage))
			return shortage->tries++ < MORE_TRIES || may_wait;
		if (!may_wait)
			return false;
		mt_driver_wait_round(round);
	}
}

MT_COLD bool mt_pool_shortage_next(struct mt_pool_shortage *shortage)
{
	shortage->has_own = shortage->has_own && release_own(shortage);
	return shortage->has_own ||
	       mt_gpu_rescue_next(&shortage->rescue, shortage->device, shortage->bytes);
}
