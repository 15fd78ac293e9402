#include "core/cleanup.h"

#include <errno.h>

#include "core/components.h"
#include "core/config.h"
#include "core/state.h"
#include "core/log.h"
#include "core/publish.h"
#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"
#include "sys/format.h"

/* requested cleanups within this time are merged */
#define REQUESTED_PAUSE_NS MT_NS_PER_S

static _Atomic uint64_t returned_by_program_bytes;
static _Atomic uint64_t worker_purge_ns; /* counter, no ordering */
static uint64_t requested_ended_ns;      /* worker thread; 0: none yet */

/* Resident memory that cleanups which run at the same time have returned together. Under the
 * publish lock. */
struct fall {
	uint64_t before_bytes;  /* where the first of them began */
	uint64_t counted_bytes; /* by those that have ended */
};
static struct fall rss_fall;
static struct fall anon_fall;
static unsigned int running_count; /* cleanups; under the publish lock */

#define X(name, text) text,
static const char *const reason_names[] = {MT_REASONS(X)};
static const char *const gc_names[] = {MT_GC_STATES(X)};
static const char *const gpu_names[] = {MT_GPU_STATES(X)};
#undef X
static const char *const level_names[] = {"purge", "light", "heavy"};

/* Returns whether a cleanup without a request skips collection and flush: of several processes that
 * train together, one that collects or flushes makes all others wait. */
static bool skips_for_ranks(const struct mt_trim_request *request)
{
	enum mt_round_mode mode = mt_round_mode_of(mt_config()->round);

	return request->level >= MT_LEVEL_LIGHT && mt_config_launch_env()->world_size > 1 &&
	       request->reason == MT_REASON_ROUND &&
	       (mode == MT_ROUND_TIMER || mode == MT_ROUND_AUTO);
}

static void count(const struct mt_stats_cleanup *cleanup, uint64_t purged, uint64_t purge_cpu_ns)
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	mt_assert(cleanup->level < MT_LEVEL_COUNT && cleanup->gc_state < MT_GC_COUNT);
	figures->light_count += cleanup->level == MT_LEVEL_LIGHT;
	figures->heavy_count += cleanup->level == MT_LEVEL_HEAVY;
	figures->gc_count += cleanup->gc_state == MT_GC_DONE;
	figures->gc_late_count +=
		cleanup->gc_state == MT_GC_LATE || cleanup->gc_state == MT_GC_BLOCKED;
	figures->gc_collected_count += cleanup->gc_collected_count;
	figures->gc_cost_ns += cleanup->gc_ns;
	if (cleanup->gpu_state == MT_GPU_DONE && cleanup->reason != MT_REASON_FRAMEWORK) {
		figures->gpu_flush_count++;
		figures->gpu_flushed_bytes +=
			mt_sat_sub(cleanup->gpu_before_bytes, cleanup->gpu_after_bytes);
	}
	if (!cleanup->merged) {
		figures->purge_count++;
		figures->purged_bytes += purged;
		figures->purge_cost_ns += purge_cpu_ns;
	}
	mt_publish_unlock();
}

/* Formats " pressure=critical sources=limit,events used_bytes=1 limit_bytes=2"; "" without
 * pressure. */
static const char *describe_pressure(const struct mt_stats_cleanup *cleanup, char *out,
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
	if (!cleanup->pressure_sources)
		return out;
	length =
		mt_format(out, out_bytes, " pressure=%s sources=", levels[cleanup->pressure_level]);
	for (int i = 0, told = 0; i < MT_PRESSURE_SOURCE_COUNT; i++)
		if (cleanup->pressure_sources & 1u << i)
			length += mt_format(out + length, out_bytes - length, "%s%s",
					    told++ ? "," : "", sources[i]);
	(void)mt_format(out + length, out_bytes - length, " used_bytes=%llu limit_bytes=%llu",
			(unsigned long long)cleanup->pressure_used_bytes,
			(unsigned long long)cleanup->pressure_limit_bytes);
	return out;
}

/* Logs the cleanup as one line, for grep, with MT_PROFILE=1. */
static void print_profile(const struct mt_stats_cleanup *cleanup)
{
	const char *result = cleanup->result == 1 ? "1" : cleanup->result == 0 ? "0" : "null";
	char pressure[160];

	if (!mt_config()->profile)
		return;
	mt_assert(cleanup->reason < MT_REASON_COUNT && cleanup->level < MT_LEVEL_COUNT);
	mt_assert(cleanup->gc_state < MT_GC_COUNT && cleanup->gpu_state < MT_GPU_STATE_COUNT);
	mt_log_plain("cleanup reason=%s level=%s round=%llu allocator=%s result=%s "
		     "rss_before_bytes=%llu rss_after_bytes=%llu anon_before_bytes=%llu "
		     "anon_after_bytes=%llu duration_ns=%llu purge_ns=%llu gc=%s gc_ns=%llu "
		     "gc_wait_ns=%llu gc_collected=%llu merged=%u gpu=%s gpu_before_bytes=%llu "
		     "gpu_after_bytes=%llu pinned_before_bytes=%llu pinned_after_bytes=%llu "
		     "frameworks=%s%s%s%s",
		     reason_names[cleanup->reason], level_names[cleanup->level],
		     (unsigned long long)cleanup->round, mt_state_allocator(), result,
		     (unsigned long long)cleanup->rss_before_bytes,
		     (unsigned long long)cleanup->rss_after_bytes,
		     (unsigned long long)cleanup->anon_before_bytes,
		     (unsigned long long)cleanup->anon_after_bytes,
		     (unsigned long long)cleanup->duration_ns,
		     (unsigned long long)cleanup->purge_ns, gc_names[cleanup->gc_state],
		     (unsigned long long)cleanup->gc_ns, (unsigned long long)cleanup->gc_wait_ns,
		     (unsigned long long)cleanup->gc_collected_count, cleanup->merged,
		     gpu_names[cleanup->gpu_state], (unsigned long long)cleanup->gpu_before_bytes,
		     (unsigned long long)cleanup->gpu_after_bytes,
		     (unsigned long long)cleanup->pinned_before_bytes,
		     (unsigned long long)cleanup->pinned_after_bytes,
		     cleanup->frameworks & MT_FRAMEWORK_TORCH ? "torch," : "",
		     cleanup->frameworks & MT_FRAMEWORK_CUPY ? "cupy," : "",
		     cleanup->frameworks & MT_FRAMEWORK_NUMBA ? "numba," : "",
		     describe_pressure(cleanup, pressure, sizeof(pressure)));
}

static struct mt_stats_cleanup new_cleanup(const struct mt_trim_request *request)
{
	struct mt_rss_full before = {0};

	(void)mt_rss_read_full(&before);
	return (struct mt_stats_cleanup){
		.time_ns = mt_os_realtime_ns(),
		.reason = request->reason,
		.level = request->level,
		.round = request->round,
		.request_seq = request->request_seq,
		.pressure_sources = request->pressure.sources,
		.pressure_level = request->pressure.level,
		.pressure_used_bytes = request->pressure.used_bytes,
		.pressure_limit_bytes = request->pressure.limit_bytes,
		.rss_before_bytes = before.rss_bytes,
		.anon_before_bytes = before.anon_bytes,
	};
}

static void read_memory_after(struct mt_stats_cleanup *cleanup)
{
	struct mt_rss_full after = {0};

	/* If a reading failed (no descriptor left) no memory counts as returned. */
	if (cleanup->rss_before_bytes && mt_rss_read_full(&after)) {
		cleanup->rss_after_bytes = after.rss_bytes;
		cleanup->anon_after_bytes = after.anon_bytes;
	} else {
		cleanup->rss_after_bytes = cleanup->rss_before_bytes;
		cleanup->anon_after_bytes = cleanup->anon_before_bytes;
	}
}

static void begin_fall(const struct mt_stats_cleanup *cleanup)
{
	(void)mt_publish_lock();
	if (running_count++ == 0) {
		rss_fall = (struct fall){.before_bytes = cleanup->rss_before_bytes};
		anon_fall = (struct fall){.before_bytes = cleanup->anon_before_bytes};
	}
	mt_publish_unlock();
}

static void count_fall(struct fall *fall, uint64_t after_bytes, uint64_t *before_bytes)
{
	uint64_t fresh =
		mt_sat_sub(mt_sat_sub(fall->before_bytes, after_bytes), fall->counted_bytes);

	fall->counted_bytes += fresh;
	*before_bytes = fresh ? after_bytes + fresh : mt_min_u64(*before_bytes, after_bytes);
}

/* Cleanups that run at the same time see the same fall of resident memory: one counts it. None
 * if a reading failed. In a child that a collection has forked, none has begun. */
static void end_fall(struct mt_stats_cleanup *cleanup)
{
	(void)mt_publish_lock();
	if (cleanup->rss_before_bytes && running_count) {
		count_fall(&rss_fall, cleanup->rss_after_bytes, &cleanup->rss_before_bytes);
		count_fall(&anon_fall, cleanup->anon_after_bytes, &cleanup->anon_before_bytes);
	}
	running_count -= running_count > 0;
	mt_publish_unlock();
}

/* Judges by bytes, not return codes: a trim that claims success and returned no page has freed
 * nothing. */
static uint32_t result_of(const struct mt_cleanup *cleanup, uint64_t purged)
{
	const struct mt_stats_cleanup *stats = &cleanup->stats;
	bool without_gc = stats->gc_state == MT_GC_NONE || stats->gc_state == MT_GC_SHARED;

	if (!cleanup->purge_possible && without_gc && stats->gpu_state != MT_GPU_DONE)
		return MT_NULL_RESULT;
	if (purged > 0)
		return 1;
	return stats->gpu_state == MT_GPU_DONE &&
	       (mt_sat_sub(stats->gpu_before_bytes, stats->gpu_after_bytes) ||
		mt_sat_sub(stats->pinned_before_bytes, stats->pinned_after_bytes));
}

void mt_cleanup_run(const struct mt_trim_request *request, struct mt_stats_cleanup *out)
{
	int kept = errno;
	struct mt_cleanup cleanup = {.stats = new_cleanup(request),
				     .skips_for_ranks = skips_for_ranks(request)};
	struct mt_stats_cleanup *stats = &cleanup.stats;
	uint64_t began = mt_os_now_ns();
	uint64_t purged;

	mt_lock_check_wait("a cleanup");
	begin_fall(stats);
	if (cleanup.skips_for_ranks)
		stats->gpu_state = MT_GPU_RANKS;
	mt_components_trim(request, &cleanup);
	read_memory_after(stats);
	stats->duration_ns = mt_os_now_ns() - began;
	end_fall(stats);
	purged = mt_sat_sub(stats->anon_before_bytes, stats->anon_after_bytes);
	stats->result = result_of(&cleanup, purged);
	if (request->here)
		mt_cleanup_add_program_bytes(purged);
	else
		mt_add_relaxed(&worker_purge_ns, cleanup.purge_cpu_ns);
	count(stats, purged, cleanup.purge_cpu_ns);
	mt_publish_add_cleanup(stats);
	print_profile(stats);
	*out = *stats;
	errno = kept;
}

void mt_cleanup_run_requested(const struct mt_trim_request *request)
{
	struct mt_stats_cleanup cleanup;

	mt_assert(mt_thread_is_ours());
	mt_cleanup_run(request, &cleanup);
	mt_components_cleaned(&cleanup, false);
	requested_ended_ns = mt_os_now_ns();
}

uint64_t mt_cleanup_requested_next_ns(void)
{
	return requested_ended_ns ? requested_ended_ns + REQUESTED_PAUSE_NS : 0;
}

bool mt_cleanup_requested_may_run(uint64_t now_ns)
{
	mt_assert(mt_thread_is_ours());
	return now_ns >= mt_cleanup_requested_next_ns();
}

void mt_cleanup_note_merged(const struct mt_trim_request *request)
{
	struct mt_stats_cleanup cleanup = {
		.time_ns = mt_os_realtime_ns(),
		.reason = request->reason,
		.level = request->level,
		.round = request->round,
		.request_seq = request->request_seq,
		.merged = 1,
	};
	const struct mt_stats_snapshot *seen = mt_publish_lock();

	mt_assert(mt_thread_is_ours());
	cleanup.rss_before_bytes = cleanup.rss_after_bytes = seen->rss_bytes;
	cleanup.anon_before_bytes = cleanup.anon_after_bytes = seen->rss_anon_bytes;
	cleanup.live_before_bytes = cleanup.live_after_bytes = seen->heap_live_bytes;
	mt_publish_unlock();
	count(&cleanup, 0, 0);
	mt_publish_queue_cleanup(&cleanup);
	print_profile(&cleanup);
}

void mt_cleanup_add_release(const struct mt_stats_cleanup *release)
{
	const struct mt_trim_request request = {.reason = (enum mt_reason)release->reason,
						.level = MT_LEVEL_HEAVY};
	struct mt_stats_cleanup cleanup = new_cleanup(&request);
	struct mt_stats_snapshot *figures;

	read_memory_after(&cleanup);
	cleanup.time_ns -= release->duration_ns;
	cleanup.duration_ns = release->duration_ns;
	cleanup.gpu_before_bytes = release->gpu_before_bytes;
	cleanup.gpu_after_bytes = release->gpu_after_bytes;
	cleanup.gpu_state = MT_GPU_DONE;
	cleanup.frameworks = release->frameworks;
	cleanup.rescued_pid = release->rescued_pid;
	cleanup.result = release->gpu_before_bytes > release->gpu_after_bytes;
	figures = mt_publish_lock();
	figures->gpu_framework_count += release->reason == MT_REASON_FRAMEWORK;
	cleanup.live_before_bytes = cleanup.live_after_bytes = figures->heap_live_bytes;
	mt_publish_unlock();
	mt_publish_add_cleanup(&cleanup);
	print_profile(&cleanup);
}

void mt_cleanup_count_merged(const uint64_t counts[MT_LEVEL_COUNT])
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	figures->light_count += counts[MT_LEVEL_LIGHT];
	figures->heavy_count += counts[MT_LEVEL_HEAVY];
	mt_publish_unlock();
	mt_publish_skip_cleanups(counts[MT_LEVEL_PURGE] + counts[MT_LEVEL_LIGHT] +
				 counts[MT_LEVEL_HEAVY]);
}

uint64_t mt_cleanup_take_program_bytes(void)
{
	return mt_exchange_relaxed(&returned_by_program_bytes, 0);
}

uint64_t mt_cleanup_take_worker_purge_ns(void)
{
	return mt_exchange_relaxed(&worker_purge_ns, 0);
}

void mt_cleanup_add_program_bytes(uint64_t bytes)
{
	mt_add_relaxed(&returned_by_program_bytes, bytes);
}

void mt_cleanup_fork_child(void)
{
	mt_store_relaxed(&worker_purge_ns, 0);
	requested_ended_ns = 0;
	running_count = 0;
	mt_store_relaxed(&returned_by_program_bytes, 0);
}
