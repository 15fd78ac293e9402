/* python/component.c -- the component: collections in cleanups, what came late, and PyTorch's
 * cache. */
#include "core/cleanup.h"
#include "core/components.h"
#include "core/control_file.h"
#include "core/devices.h"
#include "core/interpreter.h"
#include "core/publish.h"
#include "core/object_heap.h"
#include "python/framework.h"
#include "python/objects.h"
#include "python/python.h"
#include "sys/os.h"

/* how often an end of captures is looked for */
#define OWED_STEP_NS (250 * MT_NS_PER_MS)

static void publish_left(const struct mt_python_outcome *outcome)
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	figures->python_blocks_count = outcome->blocks_count;
	figures->framework_reserved_bytes = outcome->framework_reserved_bytes;
	figures->framework_allocated_bytes = outcome->framework_allocated_bytes;
	mt_publish_unlock();
}

/* No lock is held, since a finalizer may ask for a cleanup. */
static void trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	const struct mt_python_options options = {
		.flush_thread = cleanup->flush_thread,
		.patient =
			request->reason == MT_REASON_ROUND || request->reason == MT_REASON_SIGNAL,
		.here = request->here,
		.empty_frameworks = request->level == MT_LEVEL_HEAVY,
		.cuda_used = mt_devices_are_used(),
		.is_retry = request->is_retry,
	};
	struct mt_stats_cleanup *record = &cleanup->record;
	struct mt_python_outcome outcome;

	if (cleanup->skips_for_ranks || request->level < MT_LEVEL_LIGHT)
		return;
	mt_python_collect(&options, &outcome);
	if (outcome.figures_known)
		publish_left(&outcome);
	record->frameworks = outcome.frameworks;
	record->gc_state = outcome.state;
	record->gc_ns = outcome.gc_ns;
	record->gc_collected_count = outcome.collected_count;
	cleanup->caches_left = outcome.frameworks_left != 0;
}

/* What a late collection has freed on the devices lies in caches, which its cleanup found empty. */
static void clean_late(void)
{
	struct mt_trim_request request = {.reason = MT_REASON_LATE_GC, .level = MT_LEVEL_PURGE};
	struct mt_python_outcome late;

	if (!mt_python_came_late(&late))
		return;
	request.flush_gpu = late.asked_frameworks;
	mt_cleanup_run_requested(&request);
}

/* Once for each: where captures follow one another there may be no good moment. */
static void clean_owed(void)
{
	const struct mt_trim_request request = {
		.reason = MT_REASON_CAPTURE, .level = MT_LEVEL_HEAVY, .is_retry = true};

	if (!mt_devices_are_capturing() && mt_python_take_owed())
		mt_cleanup_run_requested(&request);
}

static uint64_t tick(uint64_t now_ns, uint32_t bits)
{
	uint64_t next_ns;

	(void)bits;
	clean_late();
	clean_owed();
	next_ns = mt_framework_tick(now_ns);
	if (mt_python_owes_caches() && now_ns + OWED_STEP_NS < next_ns)
		next_ns = now_ns + OWED_STEP_NS;
	return next_ns;
}

/* Where there is no such heap, both are 0. */
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

static void load(bool on)
{
	static const struct mt_interpreter_ops ops = {
		.is_running = mt_python_is_running,
		.collect_soon = mt_python_collect_soon,
		.hurry = mt_python_hurry,
		.framework_idle_bytes = mt_framework_idle_bytes,
	};

	if (on)
		mt_interpreter_set(&ops);
}

static void fork_child(void)
{
	mt_python_fork_child();
	mt_framework_fork_child();
	mt_objects_fork_child();
}

const struct mt_component mt_python_component = {
	.name = "python",
	.serve = load,
	.fork_child = fork_child,
	.tick = tick,
	.trim = trim,
	.publish = publish,
	.stop = mt_python_end,
};
