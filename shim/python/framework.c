#include <string.h>

#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/saturating.h"
#include "sys/os.h"
#include "core/cleanup.h"
#include "core/control_file.h"
#include "core/services.h"
#include "python/cpython.h"
#include "python/python.h"
#include "python/python_internal.h"

#define STEP_MIN_NS (500 * MT_NS_PER_MS)
#define FRESH_NS    (10 * MT_NS_PER_S)

/* The pending call of this module; there is one at a time. */
enum call_state { CALL_NONE, CALL_QUEUED, CALL_DONE };
enum call_kind { CALL_READ, CALL_DECAY, CALL_RESCUE };
static struct {
	_Atomic uint32_t state; /* release/acquire with the fields below */
	enum call_kind kind;
	uint32_t released; /* bits of enum mt_framework_bit */
	struct mt_python_gpu_figures before;
	struct mt_python_gpu_figures after;
	uint64_t duration_ns;
} call;

static struct mt_framework_policy policy;
static struct mt_python_gpu_figures last;
static uint64_t last_ns;
static uint64_t next_ns;
static uint64_t used_before_bytes; /* of the driver, when the release was queued */
static bool is_rescue_done;
static uint32_t rescue_released; /* by that rescue */

/* Returns the idle bytes that a cache may hold without being emptied. */
static uint64_t gate_bytes(uint64_t reserved, const struct mt_config *cfg)
{
	return mt_max_u64(cfg->slack_mb * MT_MIB, reserved / 100 * cfg->slack_pct);
}

bool mt_framework_decide(struct mt_framework_policy *own, const struct mt_python_gpu_figures *seen,
			 const struct mt_config *cfg, uint64_t now_ns)
{
	bool due = false;

	mt_assert(seen->count <= MT_PYTHON_GPU_DEVICES);
	for (int i = 0; i < MT_PYTHON_GPU_DEVICES; i++) {
		uint64_t reserved = i < seen->count ? seen->devices[i].reserved_bytes : 0;
		uint64_t idle = i < seen->count
					? mt_sat_sub(reserved, seen->devices[i].allocated_bytes)
					: 0;

		if (idle <= gate_bytes(reserved, cfg))
			own->since_ns[i] = 0;
		else if (!own->since_ns[i])
			own->since_ns[i] = now_ns;
		due |= own->since_ns[i] &&
		       now_ns - own->since_ns[i] >= cfg->framework_decay_ms * MT_NS_PER_MS;
	}
	if (due)
		memset(own, 0, sizeof(*own));
	return due;
}

static int pending(void *unused)
{
	uint64_t began = mt_os_now_ns();
	uint32_t queued = CALL_QUEUED, skipped;

	(void)unused;
	/* A forked child inherits the queued call; mt_framework_fork_child has reset its state. */
	if (mt_load_acquire(&call.state) != CALL_QUEUED)
		return 0;
	mt_python_gpu_read(&call.before);
	call.after = call.before;
	call.released = 0;
	if (call.kind == CALL_RESCUE)
		call.released = mt_python_gpu_empty(mt_devices_are_used(), false, &skipped);
	else if (call.kind == CALL_DECAY && call.before.count && mt_python_gpu_empty_torch())
		call.released = MT_FRAMEWORK_TORCH;
	if (call.released)
		mt_python_gpu_read(&call.after);
	call.duration_ns = mt_os_now_ns() - began;
	/* A destructor that ran in the call may have forked: in the child the state is reset. */
	if (atomic_compare_exchange_strong_explicit(&call.state, &queued, CALL_DONE,
						    memory_order_release, memory_order_relaxed)) {
		mt_python_breaker_call_done();
		mt_control_notify(MT_CONTROL_GC);
	}
	return 0;
}

static void queue(enum call_kind kind)
{
	mt_assert(mt_load_relaxed(&call.state) == CALL_NONE);
	call.kind = kind;
	mt_store_release(&call.state, CALL_QUEUED);
	if (mt_python_queue(pending, NULL))
		(void)mt_python_breaker_set(&call.state, CALL_QUEUED);
	else
		mt_store_release(&call.state, CALL_NONE);
}

static uint64_t reserved_bytes(const struct mt_python_gpu_figures *figures)
{
	uint64_t sum = 0;

	for (int i = 0; i < figures->count; i++)
		sum += figures->devices[i].reserved_bytes;
	return sum;
}

/* Adds the release to the history of cleanups, with the driver's figures, or PyTorch's if the
 * driver gives none. */
static void add_release(void)
{
	struct mt_stats_cleanup release = {
		.reason = MT_REASON_FRAMEWORK,
		.frameworks = call.released,
		.duration_ns = call.duration_ns,
		.gpu_before_bytes = used_before_bytes,
		.gpu_after_bytes = used_before_bytes ? mt_devices_used_bytes(false) : 0,
	};

	if (!call.released)
		return;
	if (!release.gpu_before_bytes || !release.gpu_after_bytes) {
		release.gpu_before_bytes = reserved_bytes(&call.before);
		release.gpu_after_bytes = reserved_bytes(&call.after);
	}
	mt_cleanup_add_release(&release);
}

static bool decays(void)
{
	return mt_config()->framework_decay_ms && mt_config_launch_env()->world_size <= 1;
}

static void take_result(uint64_t now_ns)
{
	enum call_kind kind = call.kind;

	mt_assert(mt_load_relaxed(&call.state) == CALL_DONE);
	last = call.after;
	last_ns = now_ns;
	if (kind == CALL_DECAY)
		add_release();
	if (kind == CALL_RESCUE) {
		is_rescue_done = true;
		rescue_released = call.released;
	}
	mt_store_release(&call.state, CALL_NONE);
	if (kind != CALL_READ || !decays() ||
	    !mt_framework_decide(&policy, &last, mt_config(), now_ns))
		return;
	used_before_bytes = mt_devices_used_bytes(false);
	queue(CALL_DECAY);
}

uint64_t mt_framework_tick(uint64_t now_ns)
{
	uint64_t decay_ns = mt_config()->framework_decay_ms * MT_NS_PER_MS;
	uint32_t state = mt_load_acquire(&call.state);

	mt_assert(mt_thread_is_ours());
	if (state == CALL_DONE)
		take_result(now_ns);
	if (!decays()) {
		memset(&policy, 0, sizeof(policy));
		return UINT64_MAX;
	}
	if (now_ns >= next_ns) {
		next_ns = now_ns + (decay_ns / 4 > STEP_MIN_NS ? decay_ns / 4 : STEP_MIN_NS);
		state = mt_load_acquire(&call.state);
		/* The call has not run: the main thread runs C code, or another thread has cleared
		 * the eval breaker. */
		if (state == CALL_QUEUED && mt_python_is_running())
			(void)mt_python_breaker_set(&call.state, CALL_QUEUED);
		else if (state == CALL_NONE && !mt_devices_are_capturing())
			queue(CALL_READ);
	}
	return next_ns;
}

bool mt_framework_empty(void)
{
	uint32_t state = mt_load_acquire(&call.state);

	mt_assert(mt_thread_is_ours());
	if (state == CALL_NONE && mt_config_launch_env()->world_size <= 1 &&
	    mt_python_is_running()) {
		is_rescue_done = false;
		queue(CALL_RESCUE);
	}
	return call.kind == CALL_RESCUE && mt_load_acquire(&call.state) != CALL_NONE;
}

enum mt_caches_state mt_framework_emptied(uint32_t *out_frameworks)
{
	enum mt_main_state main_thread = MT_MAIN_RUNS;

	if (is_rescue_done) {
		*out_frameworks = rescue_released;
		return MT_CACHES_EMPTIED;
	}
	if (mt_python_is_running())
		main_thread = mt_python_breaker_set(&call.state, CALL_QUEUED);
	return main_thread == MT_MAIN_WAITS ? MT_CACHES_BLOCKED : MT_CACHES_QUEUED;
}

uint64_t mt_framework_idle_bytes(int device)
{
	if (device < 0 || device >= last.count || mt_os_now_ns() - last_ns > FRESH_NS)
		return 0;
	return mt_sat_sub(last.devices[device].reserved_bytes,
			  last.devices[device].allocated_bytes);
}

void mt_framework_fork_child(void)
{
	mt_store_relaxed(&call.state, CALL_NONE);
	memset(&policy, 0, sizeof(policy));
	memset(&last, 0, sizeof(last));
	next_ns = 0;
	is_rescue_done = false;
}
