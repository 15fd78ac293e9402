/* gpu/rescue.c -- other processes of this user: asked for device memory, and given it
 * (gpu/pool.h). */
#include <stddef.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/config.h"
#include "core/control_file.h"
#include "core/files.h"
#include "core/services.h"
#include "core/publish.h"
#include "core/state.h"
#include "gpu/capture.h"
#include "gpu/frameworks.h"
#include "gpu/oom.h"
#include "gpu/pool.h"
#include "gpu/stats.h"
#include "gpu/driver.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/saturating.h"

#define STEP_NS  (2 * MT_NS_PER_MS)  /* between two looks at the replies */
#define STEPS    10u                 /* looks before the caller tries again in any case */
#define TRIES_NS (10 * MT_NS_PER_MS) /* looks go on after the last reply */
#define START_NS (50 * MT_NS_PER_MS) /* for the worker to make this process's files */
/* between two that found nothing; the second is that many times what the last one has waited */
#define PAUSE_NS    (100 * MT_NS_PER_MS)
#define PAUSE_SHARE 10
/* A call fails for another reason if more is free than it asks for, and so much of the device.
 * A call of unknown size: if so much is free. */
#define SLACK_SHARE   64
#define UNKNOWN_SHARE 8
#define MORE_STEP_NS  (5 * MT_NS_PER_MS)
#define BLOCKED_NS    (200 * MT_NS_PER_MS) /* Python's main thread is in a system call */
/* Nothing is cached for so long after a request: the other process tries again, and would not find
 * what this one has taken back meanwhile. Longer than PAUSE_NS. */
#define YIELD_NS MT_NS_PER_S

/* ---- this process asks ---- */

/* The thread that asks, 0: none. acquire/release with core/control_file.c's list. */
static _Atomic uint32_t turn;
/* The worker has made this process's files, or cannot. */
static _Atomic bool has_begun;
/* counters, no ordering */
static _Atomic uint64_t next_ns, rescues_count, given_bytes, last_pid;

MT_COLD bool mt_gpu_rescue_is_possible(void)
{
	enum mt_frameworks_rescue when;

	if (!mt_config()->cuda_rescue || !mt_state_is_own_process() ||
	    mt_os_now_ns() < mt_load_relaxed(&next_ns))
		return false;
	when = mt_frameworks_look().rescue;
	return when == MT_RESCUE_AT_ONCE || (when == MT_RESCUE_AGAIN && mt_oom_has_failed());
}

/* Returns whether the failed call lacked memory of the device, as far as the driver tells. */
static bool is_full(int device, uint64_t bytes)
{
	uint64_t free_bytes = 0, total_bytes = 0;

	if (device == MT_ANY_DEVICE)
		return true;
	return !mt_pool_read_memory(device, &free_bytes, &total_bytes) ||
	       free_bytes <
		       (bytes ? bytes + total_bytes / SLACK_SHARE : total_bytes / UNKNOWN_SHARE);
}

/* Another thread asks. A signal handler that has interrupted it does not wait for itself. */
static void wait_for_turn(uint64_t until_ns)
{
	uint32_t other, own = (uint32_t)mt_os_gettid();

	for (unsigned round = 0;
	     (other = mt_load_relaxed(&turn)) && other != own && mt_os_now_ns() < until_ns; round++)
		mt_driver_wait_round(round);
}

/* A new process may run out of memory before its worker has made the files. */
static bool send(struct mt_gpu_rescue *rescue, int device)
{
	struct mt_rescue_request request = {.pid = (uint64_t)mt_os_getpid()};
	uint64_t until = mt_os_now_ns() + START_NS;

	if (device != MT_ANY_DEVICE) {
		int mode = mt_driver_relax(mt_pool_driver());

		mt_driver_read_pci(device, request.device);
		mt_driver_restore(mt_pool_driver(), mode);
	}
	while (!mt_load_acquire(&has_begun) && mt_os_now_ns() < until)
		mt_os_sleep_ns(MT_NS_PER_MS);
	if (mt_load_relaxed(&has_begun))
		rescue->began_ns = mt_os_now_ns();
	return mt_control_rescue_send(&request) != 0;
}

/* Reads the replies. Returns whether they give more than those before. */
static bool note_gain(struct mt_gpu_rescue *rescue, bool *out_is_open)
{
	struct mt_rescue_gain gain;

	mt_control_rescue_read(&gain);
	*out_is_open = gain.open_count > 0;
	if (gain.freed_bytes <= rescue->freed_bytes)
		return false;
	rescue->freed_bytes = gain.freed_bytes;
	mt_add_relaxed(&given_bytes, gain.bytes - rescue->bytes);
	rescue->bytes = gain.bytes;
	rescue->pid = gain.most_pid;
	return true;
}

/* Waits for a reply that gives more. A process that replies slowly, or had its memory in use at the
 * last try, does not keep the caller from what comes free in other ways: for some steps at once. */
static bool wait_for_more(struct mt_gpu_rescue *rescue)
{
	bool is_open = true;

	mt_lock_check_wait("other processes");
	for (unsigned step = 0; step < STEPS && !note_gain(rescue, &is_open); step++) {
		if (mt_os_now_ns() - rescue->began_ns >= (is_open ? MT_RESCUE_NS : TRIES_NS))
			return false;
		mt_os_sleep_ns(STEP_NS);
	}
	return true;
}

MT_COLD bool mt_gpu_rescue_next(struct mt_gpu_rescue *rescue, int device, uint64_t bytes)
{
	uint32_t none = 0, thread = (uint32_t)mt_os_gettid();

	if (rescue->is_over)
		return false;
	if (rescue->began_ns)
		return !(rescue->is_over = !wait_for_more(rescue));
	rescue->is_over = true;
	if (!mt_gpu_rescue_is_possible())
		return false;
	/* Else memory has come free since the last try. */
	if (is_full(device, bytes)) {
		rescue->began_ns = mt_os_now_ns();
		if (atomic_compare_exchange_strong_explicit(
			    &turn, &none, thread, memory_order_acquire, memory_order_relaxed)) {
			rescue->thread = thread;
			rescue->is_over = !send(rescue, device) || !wait_for_more(rescue);
		} else {
			wait_for_turn(rescue->began_ns + MT_RESCUE_NS);
		}
	}
	return true;
}

MT_COLD void mt_gpu_rescue_end(struct mt_gpu_rescue *rescue)
{
	uint64_t now = mt_os_now_ns();
	bool is_open;

	if (!rescue->thread)
		return;
	mt_assert(mt_load_relaxed(&turn) == rescue->thread);
	(void)note_gain(rescue, &is_open);
	if (rescue->freed_bytes) {
		mt_add_relaxed(&rescues_count, 1);
		mt_store_relaxed(&last_pid, rescue->pid);
	} else if (rescue->is_over) {
		mt_store_relaxed(
			&next_ns,
			now + mt_max_u64(PAUSE_NS, PAUSE_SHARE * (now - rescue->began_ns)));
	}
	mt_store_release(&turn, 0);
}

void mt_gpu_rescue_publish(void)
{
	struct mt_stats_snapshot *out = mt_publish_lock();

	out->gpu_rescue_count = mt_load_relaxed(&rescues_count);
	out->gpu_rescue_bytes = mt_load_relaxed(&given_bytes);
	out->gpu_rescue_pid = mt_load_relaxed(&last_pid);
	mt_publish_unlock();
}

/* ---- this process gives; worker thread ---- */

static struct {
	struct mt_rescue_request request;
	uint64_t began_ns;
	uint64_t before_bytes, held_bytes; /* of this process on the device: at first, at least */
	uint64_t recorded_bytes;           /* held when the history was written */
	uint64_t blocked_ns;               /* since when Python's main thread does not come */
	uint32_t frameworks;               /* emptied */
	bool is_open;                      /* the other process may still wait */
	bool awaits_python;
	bool awaits_device; /* freed blocks are pending there */
} served;
static uint64_t is_rescuer; /* as written into the control file */

/* Static, see gpu/driver.h. */
static struct {
	char device[MT_PCI_BYTES];
	bool releases, is_pending;
	uint64_t before_bytes, after_bytes;
} job;

/* 0: ends it. The driver thread begins it, the worker ends it. */
static void yield(struct mt_pool_device *device, uint64_t until_ns)
{
	bool was = atomic_exchange(&device->yields_until_ns, until_ns) != 0;

	if (was != (until_ns != 0))
		(void)atomic_fetch_add(&device->shortages, until_ns ? 1 : (uint32_t)-1);
}

/* Returns when to run again. */
static uint64_t end_yields(uint64_t now_ns)
{
	uint64_t first_ns = UINT64_MAX;

	for (int i = 0; i < MT_POOL_DEVICES; i++) {
		uint64_t until_ns = mt_load_relaxed(&mt_pool.devices[i].yields_until_ns);

		if (until_ns && now_ns >= until_ns)
			yield(&mt_pool.devices[i], 0);
		else if (until_ns)
			first_ns = mt_min_u64(first_ns, until_ns);
	}
	return first_ns;
}

static uint64_t visit_devices(bool releases)
{
	static struct mt_gpu_device devices[MT_DEVICES_COUNT];
	int count = mt_gpu_stats_read(devices, MT_DEVICES_COUNT);
	uint64_t held = 0;

	job.is_pending = false;
	for (int i = 0; i < count; i++) {
		if (job.device[0] && strcmp(job.device, devices[i].pci) != 0)
			continue;
		held += mt_gpu_stats_held_bytes(&devices[i]);
		job.is_pending |= mt_pool_holdings(devices[i].ordinal).pending != 0;
		if (!releases)
			continue;
		yield(mt_pool_device(devices[i].ordinal), mt_os_now_ns() + YIELD_NS);
		(void)mt_pool_trim(devices[i].ordinal);
		(void)mt_gpu_stats_trim_pools(devices[i].ordinal);
	}
	return held;
}

static void visit_job(void)
{
	if (job.releases)
		job.before_bytes = visit_devices(true);
	job.after_bytes = visit_devices(false);
}

/* Returns false if nothing could be done: a capture is open, or the driver thread is busy. */
static bool visit(bool releases)
{
	if (!mt_driver_thread_is_free())
		return false;
	memcpy(job.device, served.request.device, sizeof(job.device));
	job.device[sizeof(job.device) - 1] = 0;
	job.releases = releases;
	return !mt_capture_is_open() && mt_driver_thread_run(visit_job) && !mt_capture_is_open();
}

static void reply(bool is_final)
{
	struct mt_rescue_reply now = {
		.asked_ns = served.request.asked_ns,
		.bytes = served.before_bytes - served.held_bytes,
		.pid = served.request.pid,
		.is_final = is_final,
	};

	memcpy(now.device, served.request.device, sizeof(now.device));
	mt_files_write_control(&now, sizeof(now), offsetof(struct mt_control_file, rescue_reply));
	served.is_open = !is_final;
}

/* Adds to the history what was given since the last time. */
static void record(void)
{
	const struct mt_stats_cleanup release = {
		.reason = MT_REASON_RESCUE,
		.duration_ns = mt_os_now_ns() - served.began_ns,
		.gpu_before_bytes = served.recorded_bytes,
		.gpu_after_bytes = served.held_bytes,
		.frameworks = served.frameworks,
		.rescued_pid = served.request.pid,
	};

	if (served.recorded_bytes > served.held_bytes)
		mt_cleanup_add_release(&release);
	served.recorded_bytes = served.held_bytes;
}

static bool awaits(void)
{
	return served.awaits_python || served.awaits_device;
}

static void serve(const struct mt_rescue_request *request)
{
	memset(&served, 0, sizeof(served));
	served.request = *request;
	served.began_ns = served.blocked_ns = mt_os_now_ns();
	if (served.began_ns - request->asked_ns < MT_RESCUE_NS && is_rescuer && visit(true)) {
		served.held_bytes = job.after_bytes;
		served.before_bytes = mt_max_u64(job.before_bytes, job.after_bytes);
		served.recorded_bytes = served.before_bytes;
		served.awaits_python = mt_interpreter_empty_caches();
		served.awaits_device = job.is_pending;
	}
	record();
	reply(!awaits());
}

/* Python's main thread empties the frameworks' caches when it comes to it. The other process does
 * not wait for one that stays in a system call; what that one gives later is recorded then. Pending
 * blocks go back as their work ends. */
static void serve_more(uint64_t now_ns)
{
	enum mt_caches_state state = served.awaits_python
					     ? mt_interpreter_emptied(&served.frameworks)
					     : MT_CACHES_EMPTIED;
	bool is_over;

	served.awaits_python = state != MT_CACHES_EMPTIED;
	if (state != MT_CACHES_BLOCKED || served.awaits_device)
		served.blocked_ns = now_ns;
	if ((served.awaits_device || !served.awaits_python) && visit(served.awaits_device)) {
		served.held_bytes = mt_min_u64(served.held_bytes, job.after_bytes);
		served.awaits_device = served.awaits_device && job.is_pending;
	}
	is_over = !awaits() || (served.is_open && (now_ns - served.began_ns >= MT_RESCUE_NS ||
						   now_ns - served.blocked_ns >= BLOCKED_NS));
	if (is_over)
		record();
	if (is_over || served.is_open)
		reply(is_over);
	served.awaits_device &= served.is_open;
}

static void offer(void)
{
	bool wanted = mt_config()->cuda_rescue && mt_frameworks_is_rescuer();

	if (wanted == is_rescuer || !mt_files_exist())
		return;
	is_rescuer = wanted;
	mt_files_write_control(&is_rescuer, sizeof(is_rescuer),
			       offsetof(struct mt_control_file, is_rescuer));
}

uint64_t mt_gpu_rescue_tick(uint64_t now_ns)
{
	struct mt_rescue_request request;
	uint64_t next;

	mt_store_release(&has_begun, true);
	offer();
	if (is_rescuer && mt_control_read_rescue(&request))
		serve(&request);
	else if (awaits())
		serve_more(now_ns);
	next = end_yields(now_ns);
	return awaits() && served.is_open ? mt_min_u64(next, now_ns + MORE_STEP_NS) : next;
}
