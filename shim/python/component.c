/* python/component.c -- the component: collections in cleanups, collections that run after their
 * cleanup, the caches of GPU frameworks, and looks at allocating lines. */
#include <stdlib.h>

#include "core/cleanup.h"
#include "core/components.h"
#include "core/services.h"
#include "core/publish.h"
#include "python/python.h"
#include "python/objects.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* pause between two checks for the end of a stream capture */
#define RETRY_STEP_NS (250 * MT_NS_PER_MS)

/* the outcome of a collection whose own cleanup runs now; worker thread */
static struct mt_python_outcome late;

static void publish_figures(const struct mt_python_outcome *outcome)
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	figures->python_blocks_count = outcome->blocks_count;
	figures->framework_reserved_bytes = outcome->framework_reserved_bytes;
	figures->framework_allocated_bytes = outcome->framework_allocated_bytes;
	mt_publish_unlock();
}

static void fill_stats(const struct mt_python_outcome *outcome, struct mt_stats_cleanup *stats)
{
	if (outcome->figures_known)
		publish_figures(outcome);
	stats->frameworks = outcome->frameworks;
	stats->gc_state = outcome->state;
	stats->gc_ns = outcome->gc_ns;
	stats->gc_wait_ns = outcome->wait_ns;
	stats->gc_collected_count = outcome->collected_count;
}

/* Holds no lock: a finalizer may call mt_trim. */
static void trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	const struct mt_python_options options = {
		.flush_thread = cleanup->flush_thread,
		.long_wait =
			request->reason == MT_REASON_ROUND || request->reason == MT_REASON_SIGNAL,
		.here = request->here,
		.empty_frameworks = request->level == MT_LEVEL_HEAVY,
		.cuda_used = mt_devices_are_used(),
		.is_retry = request->is_retry,
	};
	struct mt_stats_cleanup *stats = &cleanup->stats;
	struct mt_python_outcome outcome;

	if (request->reason == MT_REASON_LATE_GC)
		fill_stats(&late, stats);
	if (cleanup->skips_for_ranks || request->level < MT_LEVEL_LIGHT)
		return;
	mt_python_collect(&options, &outcome);
	fill_stats(&outcome, stats);
	cleanup->caches_skipped = outcome.frameworks_skipped != 0;
}

/* Runs a cleanup after a late collection. The device memory that the collection freed is in caches,
 * which were empty when the first cleanup flushed them. */
static void clean_after_late_call(void)
{
	struct mt_trim_request request = {.reason = MT_REASON_LATE_GC, .level = MT_LEVEL_PURGE};

	if (!mt_python_take_late(&late))
		return;
	request.flush_gpu = late.requested_frameworks;
	mt_cleanup_run_requested(&request);
}

/* Empties the caches that a capture kept from being emptied. Tries once: if captures follow one
 * another, every try may meet one. */
static void retry_caches(void)
{
	const struct mt_trim_request request = {
		.reason = MT_REASON_CAPTURE, .level = MT_LEVEL_HEAVY, .is_retry = true};

	if (!mt_devices_are_capturing() && mt_python_take_retry())
		mt_cleanup_run_requested(&request);
}

static uint64_t tick(uint64_t now_ns, uint32_t bits)
{
	uint64_t next_ns;

	(void)bits;
	clean_after_late_call();
	retry_caches();
	next_ns = mt_min_u64(mt_framework_tick(now_ns), mt_lines_tick(now_ns));
	next_ns = mt_min_u64(next_ns, mt_python_tick(now_ns));
	if (mt_python_needs_retry() && now_ns + RETRY_STEP_NS < next_ns)
		next_ns = now_ns + RETRY_STEP_NS;
	return next_ns;
}

/* If there is no such heap, both are 0. */
static void publish(bool all)
{
	struct mt_object_heap_figures objects;
	struct mt_stats_snapshot *to;

	if (!all)
		return;
	mt_object_heap_read(&objects, true);
	to = mt_publish_lock();
	to->python_live_bytes = objects.live_bytes;
	to->python_free_bytes = objects.dirty_bytes;
	mt_publish_unlock();
}

static bool request(const struct mt_request *wanted, enum mt_err *out)
{
	if (wanted->kind != MT_REQUEST_LINES)
		return false;
	*out = mt_lines_request(wanted);
	return true;
}

static void load(bool on)
{
	static const struct mt_interpreter_ops ops = {
		.is_running = mt_python_is_running,
		.thread_runs = mt_python_thread_runs,
		.wants_thread = mt_python_wants_thread,
		.start_thread = mt_python_start_thread,
		.collect_soon = mt_python_collect_soon,
		.expedite = mt_python_expedite,
		.framework_idle_bytes = mt_framework_idle_bytes,
		.empty_caches = mt_framework_empty,
		.emptied = mt_framework_emptied,
		.prepare_lines = mt_frames_prepare,
		.lines = mt_frames_lines,
		.write_lines = mt_frames_write,
		.line_text = mt_frames_line_text,
	};

	if (on)
		mt_services_set_interpreter(&ops);
}

static void fork_child(void)
{
	mt_python_fork_child();
	mt_framework_fork_child();
	mt_lines_fork_child();
	mt_frames_fork_child();
	mt_objects_fork_child();
}

/* Finds libc's getenv before there are threads: helgrind takes a later store for a race. */
static void find_getenv(bool on)
{
	(void)on;
	(void)getenv("PATH");
}

const struct mt_component mt_python_component = {
	.name = "python",
	.serve = load,
	.load = find_getenv,
	.before_start = mt_python_prepare,
	.finish = mt_python_stop_thread,
	.fork_child = fork_child,
	.tick = tick,
	.request = request,
	.trim = trim,
	.publish = publish,
	.stop = mt_python_stop,
};
