/* gpu/component.c -- the component: the device pool in ticks, cleanups and figures. */
#include "core/components.h"
#include "core/control_file.h"
#include "core/devices.h"
#include "gpu/gpu.h"
#include "gpu/thread.h"

static void serve(bool on)
{
	static const struct mt_devices_ops ops = {
		.are_used = mt_gpu_is_used,
		.are_capturing = mt_gpu_capturing,
		.have_context = mt_gpu_has_context,
		.thread_runs = mt_gpu_thread_runs,
		.used_bytes = mt_gpu_used,
		.live_bytes = mt_gpu_live_bytes,
		.rows = mt_gpu_devices,
	};

	if (on)
		mt_devices_set(&ops);
}

static uint64_t tick(uint64_t now_ns, uint32_t bits)
{
	if (bits & MT_CONTROL_OOM)
		mt_gpu_finish_oom(false);
	return mt_gpu_tick(now_ns);
}

static void prepare_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	if (cleanup->skips_for_ranks || !mt_trim_reaches_devices(request))
		return;
	cleanup->stats.gpu_before_bytes = mt_gpu_used(request->here);
	cleanup->stats.pinned_before_bytes = mt_gpu_pinned_bytes();
}

/* After Python: what its frameworks return lies in our pool. */
static void trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	struct mt_stats_cleanup *stats = &cleanup->stats;

	if (cleanup->skips_for_ranks || !mt_trim_reaches_devices(request))
		return;
	stats->gpu_state = mt_gpu_flush(request->here);
	if (stats->gpu_state == MT_GPU_NONE && stats->frameworks)
		stats->gpu_state = MT_GPU_DONE;
	if (cleanup->caches_skipped)
		stats->gpu_state = MT_GPU_CAPTURING;
	stats->gpu_after_bytes = stats->gpu_before_bytes ? mt_gpu_used(request->here) : 0;
	stats->pinned_after_bytes = mt_gpu_pinned_bytes();
}

static bool request(const struct mt_request *wanted, enum mt_err *out)
{
	if (wanted->kind != MT_REQUEST_SNAPSHOT)
		return false;
	*out = mt_gpu_snapshot();
	return true;
}

static void stop(void)
{
	mt_gpu_finish_oom(true);
}

const struct mt_component mt_gpu_component = {
	.name = "gpu",
	.serve = serve,
	.fork_child = mt_gpu_fork_child,
	.tick = tick,
	.request = request,
	.configure = mt_gpu_configure,
	.prepare_trim = prepare_trim,
	.trim = trim,
	.publish = mt_gpu_publish,
	.reset_peak = mt_gpu_reset_peak,
	.stop = stop,
};
