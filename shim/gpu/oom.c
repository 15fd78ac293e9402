#include "gpu/oom.h"

#include <string.h>

#include "gpu/unpooled.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "core/log.h"
#include "gpu/pool.h"
#include "core/control_file.h"
#include "core/services.h"
#include "gpu/driver.h"
#include "core/publish.h"
#include "sys/format.h"

/* one report a minute: a program that tries again and again does not fill the log */
#define REPORT_PAUSE_NS (60 * MT_NS_PER_S)
/* a process that ends waits this long for a report */
#define REPORTING_NS MT_NS_PER_S

/* ---- the errors of this process ---- */

/* Under `lock`, which is held over no call: errors that are not final yet, and the one report.
 * `stage` is written under it too; a thread that ends the process waits while another one
 * reports. */
enum { STAGE_NONE, STAGE_WAITING, STAGE_REPORTING };
static struct mt_lock lock = MT_LOCK(oom);
static struct failure {
	uint32_t thread;           /* thread id of the caller */
	uint32_t errors_count;     /* failed tries */
	uint64_t since_ns;         /* of the first try, CLOCK_MONOTONIC */
	struct mt_stats_oom facts; /* of the last try */
} failures[MT_OOM_PENDING_MAX];    /* oldest first, one for each thread */
/* their number, which threads without the lock read too; counter, no ordering */
_Atomic uint32_t mt_oom_pending_count;
static struct mt_stats_oom report;
static _Atomic uint32_t stage;
static uint64_t reported_ns; /* when the last report was taken; 0: never */

/* ---- in the thread that got the error ---- */

static void gather(struct mt_stats_oom *out)
{
	struct mt_unpooled_usage others;
	struct mt_pool_usage pool;

	mt_pool_usage((int)out->device, &pool);
	mt_unpooled_usage((int)out->device, &others);
	out->time_ns = mt_os_realtime_ns();
	out->allocated_bytes = pool.allocated_bytes + mt_unpooled_device_bytes(&others);
	out->reserved_bytes = pool.reserved_bytes + mt_unpooled_device_bytes(&others);
	out->idle_bytes = pool.idle_bytes + pool.pending_bytes;
	out->reserved_peak_bytes = pool.reserved_peak_bytes;
	out->num_alloc_retries = pool.num_alloc_retries;
}

/* Counts a final error and has it reported; of several close together only the first is. */
static void finalize(struct failure *final)
{
	uint64_t now = mt_os_now_ns();
	struct mt_pool_usage pool;
	bool turn;

	mt_add_relaxed(&mt_pool_device((int) final->facts.device)->ooms, final->errors_count);
	mt_pool_usage((int) final->facts.device, &pool);
	final->facts.num_ooms = pool.num_ooms;
	mt_lock_lock(&lock);
	turn = mt_load_relaxed(&stage) == STAGE_NONE &&
	       (!reported_ns || now - reported_ns >= REPORT_PAUSE_NS);
	if (turn) {
		reported_ns = now;
		report = final->facts;
		mt_store_relaxed(&stage, STAGE_WAITING);
	}
	mt_lock_unlock(&lock);
	if (turn)
		mt_control_notify(MT_CONTROL_OOM);
}

/* ---- errors that the program may still overcome by itself. After the first error PyTorch, CuPy
 * and RMM empty their cache and ask again for the same; the BFC allocator of JAX and TensorFlow
 * asks for a tenth less each time. An error is overcome when the same thread's next allocation on
 * the device succeeds, with the same size or up to an eighth less. It is final when that thread
 * allocates something else first, and after MT_OOM_PATIENCE_NS. The lock is held. ---- */

static uint32_t pending_count(void)
{
	return mt_load_relaxed(&mt_oom_pending_count);
}

static void set_pending_count(uint32_t count)
{
	mt_assert(count <= MT_OOM_PENDING_MAX);
	mt_store_relaxed(&mt_oom_pending_count, count);
}

/* Returns the place of the calling thread's error; the count: it has none. */
static uint32_t find_own(void)
{
	uint32_t index = 0, thread = (uint32_t)mt_os_gettid();

	while (index < pending_count() && failures[index].thread != thread)
		index++;
	return index;
}

static struct failure take(uint32_t index)
{
	struct failure taken = failures[index];
	uint32_t rest = pending_count() - 1;

	mt_assert(index <= rest);
	memmove(&failures[index], &failures[index + 1], (rest - index) * sizeof(failures[0]));
	set_pending_count(rest);
	return taken;
}

/* By the size of the last try, so that the steps of BFC may go on. An import has no size and no
 * second try. */
static bool is_enough(const struct mt_stats_oom *failed, uint64_t device, uint64_t bytes)
{
	return failed->asked_bytes && failed->device == device &&
	       bytes >= failed->asked_bytes - failed->asked_bytes / 8;
}

/* An allocation of the calling thread has failed. Returns true if another error has become final by
 * that, *out_final. */
static bool add_failure(const struct mt_stats_oom *facts, struct failure *out_final)
{
	uint32_t index = find_own(), count = pending_count();
	bool is_known = index < count, pushes = is_known || count == MT_OOM_PENDING_MAX;

	if (is_known && facts->asked_bytes <= failures[index].facts.asked_bytes &&
	    is_enough(&failures[index].facts, facts->device, facts->asked_bytes)) {
		failures[index].errors_count++;
		failures[index].facts = *facts;
		return false;
	}
	if (pushes)
		*out_final = take(is_known ? index : 0);
	count = pending_count();
	failures[count] = (struct failure){.thread = (uint32_t)mt_os_gettid(),
					   .errors_count = 1,
					   .since_ns = mt_os_now_ns(),
					   .facts = *facts};
	set_pending_count(count + 1);
	return pushes;
}

void mt_oom_note(const char *function, uint64_t asked_bytes, int device, uint64_t free_bytes,
		 uint64_t total_bytes)
{
	struct mt_stats_oom facts = {.asked_bytes = asked_bytes,
				     .device = (uint64_t)(device < 0 ? 0 : device)};
	struct failure final;
	bool finalizes;

	facts.free_bytes = free_bytes;
	facts.total_bytes = total_bytes;
	(void)mt_format(facts.function, sizeof(facts.function), "%s", function);
	gather(&facts);
	mt_lock_lock(&lock);
	finalizes = add_failure(&facts, &final);
	mt_lock_unlock(&lock);
	if (finalizes)
		finalize(&final);
	mt_control_notify(MT_CONTROL_OOM); /* the worker wakes when its time is up */
}

void mt_oom_note_success(uint64_t bytes, int device)
{
	struct failure settled;
	bool is_overcome = false, is_found;
	uint32_t index;

	mt_lock_lock(&lock);
	index = find_own();
	is_found = index < pending_count();
	if (is_found) {
		settled = take(index);
		is_overcome = is_enough(&settled.facts, (uint64_t)(device < 0 ? 0 : device), bytes);
	}
	mt_lock_unlock(&lock);
	if (is_overcome)
		mt_add_relaxed(&mt_pool_device((int)settled.facts.device)->retries, 1);
	else if (is_found)
		finalize(&settled);
}

bool mt_oom_has_failed(void)
{
	bool has;

	mt_lock_lock(&lock);
	has = find_own() < pending_count();
	mt_lock_unlock(&lock);
	return has;
}

/* ---- errors whose time is up ---- */

/* The lock is held. */
static uint64_t next_ns(void)
{
	return pending_count() ? failures[0].since_ns + MT_OOM_PATIENCE_NS : UINT64_MAX;
}

uint64_t mt_oom_tick(uint64_t now_ns)
{
	struct failure final;
	uint64_t at_ns;
	bool is_found;

	do {
		mt_lock_lock(&lock);
		is_found = pending_count() && now_ns >= next_ns();
		if (is_found)
			final = take(0);
		at_ns = next_ns();
		mt_lock_unlock(&lock);
		if (is_found)
			finalize(&final);
	} while (is_found);
	return at_ns;
}

/* ---- the report ---- */

/* One line; `mtctl stat PID --oom` has the rest. */
static void print(const struct mt_stats_oom *oom)
{
	char others[64] = "not known";

	if (oom->others_known)
		(void)mt_format(others, sizeof(others), "%llu MB", MT_MB(oom->others_bytes));
	mt_log(MT_LOG_WARN,
	       "gpu-oom: device %llu is out of memory: %s asked for %llu MB; %llu MB free of %llu "
	       "MB, this process: allocated %llu MB, unused in the pool %llu MB, in PyTorch's "
	       "cache %llu MB, other processes: %s",
	       (unsigned long long)oom->device, oom->function, MT_MB(oom->asked_bytes),
	       MT_MB(oom->free_bytes), MT_MB(oom->total_bytes), MT_MB(oom->allocated_bytes),
	       MT_MB(oom->idle_bytes), MT_MB(oom->framework_idle_bytes), others);
}

bool mt_oom_has_report(void)
{
	return mt_load_relaxed(&stage) == STAGE_WAITING;
}

/* Takes the report that is waiting; false: there is none. */
static bool take_report(struct mt_stats_oom *out)
{
	bool found;

	mt_lock_lock(&lock);
	*out = report;
	found = mt_oom_has_report();
	if (found)
		mt_store_relaxed(&stage, STAGE_REPORTING);
	mt_lock_unlock(&lock);
	return found;
}

/* The end of the process would end the thread that reports, in the middle of a line or before the
 * first one. */
static void wait_for_report(void)
{
	uint64_t until_ns = mt_os_now_ns() + REPORTING_NS;

	for (unsigned round = 0;
	     mt_load_relaxed(&stage) == STAGE_REPORTING && mt_os_now_ns() < until_ns; round++)
		mt_driver_wait_round(round);
}

/* By the rows of the devices as last published. */
static void add_others(struct mt_stats_oom *oom)
{
	const struct mt_stats_device *rows;

	for (uint32_t left = mt_devices_rows(&rows); left > 0; left--, rows++) {
		if (rows->ordinal != oom->device)
			continue;
		oom->others_known = rows->others_known;
		oom->others_bytes = rows->others_bytes;
		oom->others_count = rows->others_count;
	}
}

void mt_oom_finish(bool at_end)
{
	struct mt_stats_oom oom;

	if (at_end)
		(void)mt_oom_tick(UINT64_MAX);
	if (take_report(&oom)) {
		if (!at_end)
			add_others(&oom);
		oom.framework_idle_bytes = mt_interpreter_framework_idle_bytes((int)oom.device);
		print(&oom);
		mt_publish_add_oom(&oom);
		mt_lock_lock(&lock);
		mt_store_relaxed(&stage, STAGE_NONE);
		mt_lock_unlock(&lock);
	} else if (at_end) {
		wait_for_report();
	}
}
