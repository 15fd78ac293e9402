#include "core/cleanup.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "heap/account.h"
#include "heap/backend.h"
#include "sys/lock.h"
#include "core/log.h"
#include "sys/saturating.h"
#include "sys/os.h"
#include "gpu/gpu.h"
#include "python/python.h"
#include "pressure/direct_reclaim.h"
#include "heap/shared_pages.h"
#include "sys/rss.h"
#include "core/publish.h"

static struct mt_lock lock = MT_LOCK(cleanup); /* one purge at a time */
static _Atomic uint64_t foreign_bytes;
static _Atomic uint64_t worker_purge_ns; /* CPU time of the worker's purges; counter, no ordering */

static const char *const reason_texts[] = {
#define X(name, text) text,
	MT_REASONS(X)
#undef X
};
static const char *const level_texts[] = {"purge", "light", "heavy"};

/* Ours, or where we do not count the allocator's own. */
static uint64_t live_bytes(void)
{
	struct mt_account_totals totals = {0};
	struct mt_heap_figures figures = {0};

	if (mt_backend()->counting != MT_COUNTING_NONE) {
		(void)mt_account_read(&totals);
		return totals.live_bytes;
	}
	mt_lock_take(&lock);
	(void)mt_backend()->figures(&figures);
	mt_lock_drop(&lock);
	return figures.live_bytes;
}

/* A cleanup that nobody asked for: of several processes that train together, one that collects or
 * flushes lets all others wait. */
static bool is_automatic(const struct mt_trim_request *order)
{
	enum mt_round_mode mode = mt_round_mode_of(mt_config()->round);

	return order->reason == MT_REASON_ROUND &&
	       (mode == MT_ROUND_TIMER || mode == MT_ROUND_AUTO);
}

static bool spares_ranks(const struct mt_trim_request *order)
{
	return order->level >= MT_LEVEL_LIGHT && mt_launch_env()->world_size > 1 &&
	       is_automatic(order);
}

static void publish_left(const struct mt_python_outcome *outcome)
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	figures->python_blocks_count = outcome->blocks_count;
	figures->framework_reserved_bytes = outcome->framework_reserved_bytes;
	figures->framework_allocated_bytes = outcome->framework_allocated_bytes;
	mt_publish_unlock();
}

/* Answers whether frameworks' caches were left because of a capture. */
static bool collect(const struct mt_trim_request *order, struct mt_stats_record *record)
{
	const struct mt_python_options options = {
		.flush_thread = mt_backend()->flush_thread,
		.patient = order->reason == MT_REASON_ROUND || order->reason == MT_REASON_SIGNAL,
		.here = order->here,
		.empty_frameworks = order->level == MT_LEVEL_HEAVY,
		.cuda_used = mt_gpu_is_used(),
		.made_up = order->made_up,
	};
	struct mt_python_outcome outcome;

	mt_python_collect(&options, &outcome);
	if (outcome.figures_known)
		publish_left(&outcome);
	record->frameworks = outcome.frameworks;
	record->gc_state = outcome.state;
	record->gc_ns = outcome.gc_ns;
	record->gc_collected_count = outcome.collected_count;
	return outcome.frameworks_left != 0;
}

static void count(const struct mt_stats_record *record, uint64_t purged)
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	figures->light_count += record->level == MT_LEVEL_LIGHT;
	figures->heavy_count += record->level == MT_LEVEL_HEAVY;
	figures->gc_count += record->gc_state == MT_GC_DONE;
	figures->gc_late_count +=
		record->gc_state == MT_GC_LATE || record->gc_state == MT_GC_BLOCKED;
	figures->gc_collected_count += record->gc_collected_count;
	figures->gc_cost_ns += record->gc_ns;
	if (record->gpu_state == MT_GPU_DONE && record->reason != MT_REASON_FRAMEWORK) {
		figures->gpu_flush_count++;
		figures->gpu_flushed_bytes +=
			mt_sat_sub(record->gpu_before_bytes, record->gpu_after_bytes);
	}
	if (!record->merged) {
		figures->purge_count++;
		figures->purged_bytes += purged;
		figures->purge_cost_ns += record->purge_ns;
	}
	mt_publish_unlock();
}

/* " pressure=critical sources=limit,events used_bytes=1 limit_bytes=2"; nothing where it was no
 * pressure. */
static const char *describe_pressure(const struct mt_stats_record *record, char *out,
				     size_t out_bytes)
{
	static const char *const levels[] = {"none", "warn", "critical"};
	static const char *const sources[] = {
#define X(name, text) text,
		MT_PRESSURE_SOURCES(X)
#undef X
	};
	size_t length;

	out[0] = 0;
	if (!record->pressure_sources)
		return out;
	length = mt_format(out, out_bytes, " pressure=%s sources=", levels[record->pressure_level]);
	for (int i = 0, told = 0; i < MT_PRESSURE_SOURCE_COUNT; i++)
		if (record->pressure_sources & 1u << i)
			length += mt_format(out + length, out_bytes - length, "%s%s",
					    told++ ? "," : "", sources[i]);
	(void)mt_format(out + length, out_bytes - length, " used_bytes=%llu limit_bytes=%llu",
			(unsigned long long)record->pressure_used_bytes,
			(unsigned long long)record->pressure_limit_bytes);
	return out;
}

/* One line that grep finds; MT_PROFILE=1. */
static void print_profile(const struct mt_stats_record *record)
{
	static const char *const gc_texts[] = {
#define X(name, text) text,
		MT_GC_STATES(X)
#undef X
	};
	static const char *const gpu_texts[] = {
#define X(name, text) text,
		MT_GPU_STATES(X)
#undef X
	};
	const char *result = record->result == 1 ? "1" : record->result == 0 ? "0" : "null";
	char pressure[160];

	if (!mt_config()->profile)
		return;
	mt_log_plain("cleanup reason=%s level=%s round=%llu allocator=%s result=%s "
		     "rss_before_bytes=%llu rss_after_bytes=%llu "
		     "anon_before_bytes=%llu anon_after_bytes=%llu duration_us=%llu purge_us=%llu "
		     "gc=%s gc_us=%llu "
		     "gc_collected=%llu merged=%u gpu=%s gpu_before_bytes=%llu "
		     "gpu_after_bytes=%llu pinned_before_bytes=%llu pinned_after_bytes=%llu "
		     "frameworks=%s%s%s%s",
		     reason_texts[record->reason], level_texts[record->level],
		     (unsigned long long)record->round, mt_backend_identity()->allocator, result,
		     (unsigned long long)record->rss_before_bytes,
		     (unsigned long long)record->rss_after_bytes,
		     (unsigned long long)record->anon_before_bytes,
		     (unsigned long long)record->anon_after_bytes,
		     (unsigned long long)record->duration_ns / 1000,
		     (unsigned long long)record->purge_ns / 1000, gc_texts[record->gc_state],
		     (unsigned long long)record->gc_ns / 1000,
		     (unsigned long long)record->gc_collected_count, record->merged,
		     gpu_texts[record->gpu_state], (unsigned long long)record->gpu_before_bytes,
		     (unsigned long long)record->gpu_after_bytes,
		     (unsigned long long)record->pinned_before_bytes,
		     (unsigned long long)record->pinned_after_bytes,
		     record->frameworks & MT_FRAMEWORK_TORCH ? "torch," : "",
		     record->frameworks & MT_FRAMEWORK_CUPY ? "cupy," : "",
		     record->frameworks & MT_FRAMEWORK_NUMBA ? "numba," : "",
		     describe_pressure(record, pressure, sizeof(pressure)));
}

static struct mt_stats_record new_record(const struct mt_trim_request *order)
{
	struct mt_rss_full before = {0};

	(void)mt_rss_read_full(&before);
	return (struct mt_stats_record){
		.time_ns = mt_os_realtime_ns(),
		.reason = order->reason,
		.level = order->level,
		.round = order->round,
		.request_seq = order->request_seq,
		.pressure_sources = order->pressure.sources,
		.pressure_level = order->pressure.level,
		.pressure_used_bytes = order->pressure.used_bytes,
		.pressure_limit_bytes = order->pressure.limit_bytes,
		.rss_before_bytes = before.rss_bytes,
		.anon_before_bytes = before.anon_bytes,
		.live_before_bytes = live_bytes(),
	};
}

static void finish_record(struct mt_stats_record *record)
{
	struct mt_rss_full after = {0};

	/* With one of the two readings missing (no descriptor to be had) nothing is known to have
	 * been freed. */
	if (record->rss_before_bytes && mt_rss_read_full(&after)) {
		record->rss_after_bytes = after.rss_bytes;
		record->anon_after_bytes = after.anon_bytes;
	} else {
		record->rss_after_bytes = record->rss_before_bytes;
		record->anon_after_bytes = record->anon_before_bytes;
	}
	record->live_after_bytes = live_bytes();
}

/* Under the lock: one purge at a time. */
static bool purge(const struct mt_trim_request *order, struct mt_stats_record *record)
{
	struct mt_purge_outcome outcome = {0};
	uint64_t began = mt_os_now_ns();
	uint64_t began_cpu = mt_os_thread_cpu_ns();

	mt_lock_take(&lock);
	if (order->here && mt_backend()->flush_thread)
		mt_backend()->flush_thread();
	outcome.possible = true;
	if (!mt_shared_pages_purge_copies(true))
		mt_backend()->purge(&outcome);
	mt_reclaim_note_purge();
	mt_lock_drop(&lock);
	record->purge_ns += mt_os_now_ns() - began;
	if (!order->here)
		atomic_fetch_add_explicit(&worker_purge_ns,
					  mt_sat_sub(mt_os_thread_cpu_ns(), began_cpu),
					  memory_order_relaxed);
	if (outcome.longest_hold_ns > record->longest_hold_ns)
		record->longest_hold_ns = outcome.longest_hold_ns;
	return outcome.possible;
}

/* Python first: what its frameworks give back lands in our pool. */
static void flush_gpu(const struct mt_trim_request *order, bool left,
		      struct mt_stats_record *record)
{
	if (order->level != MT_LEVEL_HEAVY && !order->flush_gpu)
		return;
	record->gpu_state = mt_gpu_flush(order->here);
	if (record->gpu_state == MT_GPU_NONE && record->frameworks)
		record->gpu_state = MT_GPU_DONE;
	if (left)
		record->gpu_state = MT_GPU_CAPTURING;
	record->gpu_after_bytes = record->gpu_before_bytes ? mt_gpu_used(order->here) : 0;
	record->pinned_after_bytes = mt_gpu_pinned_bytes();
}

/* gc and GPU caches, as far as the order goes. */
static void clean_above_heap(const struct mt_trim_request *order, struct mt_stats_record *record)
{
	bool left = false;

	if (spares_ranks(order)) {
		record->gpu_state = MT_GPU_RANKS;
		return;
	}
	if (order->level == MT_LEVEL_HEAVY || order->flush_gpu) {
		record->gpu_before_bytes = mt_gpu_used(order->here);
		record->pinned_before_bytes = mt_gpu_pinned_bytes();
	}
	/* No lock, since a finalizer may ask for a cleanup. */
	if (order->level >= MT_LEVEL_LIGHT)
		left = collect(order, record);
	flush_gpu(order, left, record);
}

/* Python's collector was left out, or there is no Python here. */
static bool is_without_gc(const struct mt_stats_record *record)
{
	return record->gc_state == MT_GC_NONE || record->gc_state == MT_GC_SHARED;
}

/* Python may let us wait, and so may the loader, who is asked for Python: what can go at once goes
 * at once. */
static bool purge_ahead(const struct mt_trim_request *order, struct mt_stats_record *record)
{
	if (order->level < MT_LEVEL_LIGHT || order->here ||
	    (!order->pressure.sources && !mt_python_is_running()))
		return false;
	return purge(order, record);
}

void mt_cleanup_run(const struct mt_trim_request *order, struct mt_stats_record *out)
{
	struct mt_stats_record record;
	uint64_t began = mt_os_now_ns();
	uint64_t purged;
	bool possible;
	int kept = errno;

	record = new_record(order);
	possible = purge_ahead(order, &record);
	clean_above_heap(order, &record);
	/* else nothing has been freed since */
	if (!possible || !is_without_gc(&record) || record.gpu_state != MT_GPU_NONE)
		possible = purge(order, &record);
	finish_record(&record);
	record.duration_ns = mt_os_now_ns() - began;
	purged = mt_sat_sub(record.anon_before_bytes, record.anon_after_bytes);
	/* Bytes, not return codes: a trim that claims success and returned no page has freed
	 * nothing. */
	record.result = purged > 0 ? 1 : 0;
	if (record.gpu_state == MT_GPU_DONE &&
	    (mt_sat_sub(record.gpu_before_bytes, record.gpu_after_bytes) ||
	     mt_sat_sub(record.pinned_before_bytes, record.pinned_after_bytes)))
		record.result = 1;
	if (!possible && is_without_gc(&record) && record.gpu_state != MT_GPU_DONE)
		record.result = MT_NULL_RESULT;
	if (order->here)
		mt_cleanup_note_program(purged);
	count(&record, purged);
	mt_publish_record(&record);
	print_profile(&record);
	*out = record;
	errno = kept;
}

void mt_cleanup_note_merged(const struct mt_trim_request *order)
{
	struct mt_stats_record record = {
		.time_ns = mt_os_realtime_ns(),
		.reason = order->reason,
		.level = order->level,
		.round = order->round,
		.request_seq = order->request_seq,
		.merged = 1,
	};
	const struct mt_stats_snapshot *seen = mt_publish_lock();

	record.rss_before_bytes = record.rss_after_bytes = seen->rss_bytes;
	record.anon_before_bytes = record.anon_after_bytes = seen->rss_anon_bytes;
	record.live_before_bytes = record.live_after_bytes = seen->heap_live_bytes;
	mt_publish_unlock();
	count(&record, 0);
	mt_publish_keep_record(&record);
	print_profile(&record);
}

void mt_cleanup_add_framework(uint64_t gpu_before_bytes, uint64_t gpu_after_bytes,
			      uint64_t duration_ns)
{
	const struct mt_trim_request order = {.reason = MT_REASON_FRAMEWORK,
					      .level = MT_LEVEL_HEAVY};
	struct mt_stats_record record = new_record(&order);

	finish_record(&record);
	record.time_ns -= duration_ns; /* it is over */
	record.duration_ns = duration_ns;
	record.gpu_before_bytes = gpu_before_bytes;
	record.gpu_after_bytes = gpu_after_bytes;
	record.gpu_state = MT_GPU_DONE;
	record.frameworks = MT_FRAMEWORK_TORCH;
	record.result = mt_sat_sub(gpu_before_bytes, gpu_after_bytes) ? 1 : 0;
	mt_publish_lock()->gpu_framework_count++;
	mt_publish_unlock();
	mt_publish_record(&record);
	print_profile(&record);
}

void mt_cleanup_count_merged(const uint64_t counts[MT_LEVEL_COUNT])
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	figures->light_count += counts[MT_LEVEL_LIGHT];
	figures->heavy_count += counts[MT_LEVEL_HEAVY];
	mt_publish_unlock();
	mt_publish_skip_records(counts[MT_LEVEL_PURGE] + counts[MT_LEVEL_LIGHT] +
				counts[MT_LEVEL_HEAVY]);
}

uint64_t mt_cleanup_program_bytes(void)
{
	return atomic_exchange_explicit(&foreign_bytes, 0, memory_order_relaxed);
}

uint64_t mt_cleanup_worker_purge_ns(void)
{
	return atomic_exchange_explicit(&worker_purge_ns, 0, memory_order_relaxed);
}

void mt_cleanup_note_program(uint64_t bytes)
{
	atomic_fetch_add_explicit(&foreign_bytes, bytes, memory_order_relaxed);
}

void mt_cleanup_fork_child(void)
{
	atomic_store_explicit(&worker_purge_ns, 0, memory_order_relaxed);
	mt_lock_reset(&lock);
	atomic_store_explicit(&foreign_bytes, 0, memory_order_relaxed);
}
