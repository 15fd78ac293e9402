#include "core/worker.h"

#include <linux/close_range.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/config.h"
#include "sys/raw_syscall.h"
#include "core/log.h"
#include "sys/main_thread.h"
#include "sys/os.h"
#include "sys/raw_clone.h"
#include "core/cleanup.h"
#include "core/control_file.h"
#include "python/framework.h"
#include "gpu/gpu.h"
#include "heap/profile_dump.h"
#include "purge/adaptive_rounds.h"
#include "core/main_exit.h"
#include "purge/policy.h"
#include "pressure/pressure.h"
#include "python/python.h"
#include "pressure/direct_reclaim.h"
#include "core/requests.h"
#include "purge/rounds.h"
#include "core/thread.h"
#include "purge/tick.h"
#include "core/rights.h"
#include "sys/rss.h"
#include "core/publish.h"

#define STACK_BYTES (256 * 1024)
/* asked cleanups are coalesced to one in this time */
#define ASKED_PAUSE_NS MT_NS_PER_S
/* a purge of many GB may take that long */
#define ASIDE_NS (2 * MT_NS_PER_S)
/* what a thread needs to begin, on a busy machine */
#define BIRTH_NS (100 * MT_NS_PER_MS)
/* how often an end of captures is looked for */
#define OWED_STEP_NS  (250 * MT_NS_PER_MS)
#define SAMPLING_BITS (MT_CONTROL_SIGNAL | MT_CONTROL_API)

static struct mt_thread thread;
static _Atomic pid_t thread_id; /* 0 before it runs; no ordering */
static _Atomic bool leaves;     /* release/acquire: rung after it is set */
/* The tick is stretched, and growth rings; growth since the last tick. seq_cst both: either who
 * grows sees the doze, or who is about to doze sees the growth, and rings himself. */
static _Atomic bool dozes;
static _Atomic bool has_grown;

/* What the thread remembers; only the thread touches it. */
static uint64_t cleaned_ns; /* when the last asked cleanup ended */
static uint64_t rounds_seen;
static uint64_t round_timer_ns;            /* when the next timer round ends; 0 for none */
static struct mt_adaptive_rounds adaptive; /* of MT_GC_ROUNDS=auto */
static uint64_t adaptive_ns;               /* when it was told of a round end; 0: never */

bool mt_worker_is_running(void)
{
	return mt_thread_runs(&thread);
}

void mt_worker_note_growth(void)
{
	atomic_store(&has_grown, true);
	if (atomic_load(&dozes))
		mt_control_notify(MT_CONTROL_GROWTH);
}

static void carry_out(const struct mt_trim_request *order)
{
	struct mt_stats_record record;

	mt_cleanup_run(order, &record);
	mt_tick_note_cleanup(&record, false);
	cleaned_ns = mt_os_now_ns();
}

static void clean(enum mt_reason reason, enum mt_level level, uint64_t round)
{
	const struct mt_trim_request order = {.reason = reason, .level = level, .round = round};

	carry_out(&order);
}

/* What the late collection has freed on the devices lies in caches, which the cleanup has found
 * empty. */
static void clean_late(const struct mt_python_outcome *late)
{
	const struct mt_trim_request order = {.reason = MT_REASON_LATE_GC,
					      .level = MT_LEVEL_PURGE,
					      .flush_gpu = late->asked_frameworks};

	carry_out(&order);
}

/* Once for each: where captures follow one another there may be no good moment. */
static void clean_owed(void)
{
	const struct mt_trim_request order = {
		.reason = MT_REASON_CAPTURE, .level = MT_LEVEL_HEAVY, .made_up = true};

	if (!mt_gpu_capturing() && mt_python_take_owed())
		carry_out(&order);
}

static bool asked_may_run(uint64_t now)
{
	return !cleaned_ns || now - cleaned_ns >= ASKED_PAUSE_NS;
}

/* ---- rounds ---- */

/* The last of the due rounds stands for all of them, at the highest level that one of them asks
 * for. */
static void clean_due(const struct mt_trim_request *due, const uint64_t *older, uint64_t count)
{
	uint64_t first = count > MT_RECORDS_COUNT ? count - MT_RECORDS_COUNT : 0;
	const struct mt_trim_request *last = &due[(count - 1) % MT_RECORDS_COUNT];
	enum mt_level level = older[MT_LEVEL_HEAVY] ? MT_LEVEL_HEAVY : last->level;

	mt_cleanup_count_merged(older);
	for (uint64_t i = first; i + 1 < count; i++) {
		const struct mt_trim_request *merged = &due[i % MT_RECORDS_COUNT];

		mt_cleanup_note_merged(merged);
		level = merged->level > level ? merged->level : level;
	}
	clean(MT_REASON_ROUND, level, last->round);
}

/* Rounds that fall together are one round end to the adaptive rounds too. */
static void tell_adaptive(void)
{
	uint64_t now = mt_os_now_ns();
	uint64_t bytes;
	struct mt_stats_snapshot *figures;

	if (adaptive_ns && now - adaptive_ns < ASKED_PAUSE_NS)
		return;
	adaptive_ns = now;
	bytes = mt_tick_kept_bytes();
	figures = mt_publish_lock();
	mt_adaptive_rounds_round(&adaptive, bytes, figures->pressure_level > 0);
	mt_publish_unlock();
	mt_log(MT_LOG_DEBUG, "round end: %llu kB kept, a light cleanup every %llu rounds",
	       (unsigned long long)(bytes / 1024),
	       (unsigned long long)mt_adaptive_rounds_step(&adaptive));
}

/* Rounds between two light cleanups, 0 for none: as set, or as the adaptive rounds has it. */
static uint64_t gc_step(const struct mt_config *cfg, bool rounds_ended)
{
	bool climbs = cfg->gc_rounds == MT_COUNT_AUTO;

	if (!climbs || !adaptive.patience)
		mt_adaptive_rounds_start(&adaptive);
	if (climbs && rounds_ended)
		tell_adaptive();
	mt_publish_lock()->gc_rounds_step = climbs ? mt_adaptive_rounds_step(&adaptive) : 0;
	mt_publish_unlock();
	return climbs ? mt_adaptive_rounds_step(&adaptive) : cfg->gc_rounds;
}

/* Every due round leaves a record, as far as records are kept; those that fall together are merged
 * into the last. The bit is taken before the rounds are counted: one that ends later rings again.
 */
static void clean_rounds(void)
{
	const struct mt_config *cfg = mt_config();
	struct mt_trim_request due[MT_RECORDS_COUNT] = {{0}}; /* those that records are kept of */
	uint64_t older[MT_LEVEL_COUNT] = {0};                 /* and how many came before them */
	uint64_t count = 0;
	uint64_t last;
	uint64_t step;

	if (!asked_may_run(mt_os_now_ns()))
		return;
	mt_control_clear(MT_CONTROL_API);
	last = mt_rounds_count();
	step = gc_step(cfg, rounds_seen < last);
	while (rounds_seen < last) {
		struct mt_trim_request *slot = &due[count % MT_RECORDS_COUNT];
		enum mt_level level;

		if (!mt_rounds_due(++rounds_seen, step, cfg, &level))
			continue;
		if (count++ >= MT_RECORDS_COUNT)
			older[slot->level]++;
		*slot = (struct mt_trim_request){
			.reason = MT_REASON_ROUND, .level = level, .round = rounds_seen};
	}
	if (count)
		clean_due(due, older, count);
}

static void run_round_timer(uint64_t now)
{
	const struct mt_config *cfg = mt_config();
	uint64_t span = mt_round_seconds_of(cfg->round) * MT_NS_PER_S;

	if (mt_round_mode_of(cfg->round) != MT_ROUND_TIMER) {
		round_timer_ns = 0;
		return;
	}
	if (!round_timer_ns || round_timer_ns > now + span) {
		round_timer_ns = now + span;
	} else if (now >= round_timer_ns) {
		round_timer_ns = now + span;
		(void)mt_rounds_end();
	}
}

/* ---- what was asked for ---- */

/* A bit stays set until its cleanup has run, so that a storm of signals, or of rounds, is one
 * wake-up. */
static void answer_control(uint32_t bits)
{
	struct mt_python_outcome late;

	mt_control_clear(bits & ~(uint32_t)SAMPLING_BITS);
	if (mt_python_came_late(&late))
		clean_late(&late);
	clean_owed();
	if (bits & MT_CONTROL_OOM)
		mt_gpu_finish_oom(false);
	if (!(bits & MT_CONTROL_SIGNAL) || !asked_may_run(mt_os_now_ns()))
		return;
	mt_control_clear(MT_CONTROL_SIGNAL);
	if (mt_round_mode_of(mt_config()->round) == MT_ROUND_SIGNAL)
		(void)mt_rounds_end();
	else
		clean(MT_REASON_SIGNAL, MT_LEVEL_HEAVY, 0);
}

static uint64_t until(uint64_t when, uint64_t now)
{
	return when > now ? when - now : 0;
}

/* Pool and frameworks have times of their own; with nothing of theirs to do the tick alone decides.
 */
static uint64_t gpu_turn_ns(uint64_t now)
{
	uint64_t pool_ns = mt_gpu_tick(now);
	uint64_t framework_ns = mt_framework_tick(now);

	if (mt_python_owes_caches() && now + OWED_STEP_NS < framework_ns)
		framework_ns = now + OWED_STEP_NS;
	return pool_ns < framework_ns ? pool_ns : framework_ns;
}

static uint64_t sleep_ns(uint64_t now, uint64_t tick_ns, uint64_t pressure_ns)
{
	uint64_t span = until(tick_ns < pressure_ns ? tick_ns : pressure_ns, now);
	uint64_t gpu_span = until(gpu_turn_ns(now), now);

	if (gpu_span < span)
		span = gpu_span;
	if (round_timer_ns && until(round_timer_ns, now) < span)
		span = until(round_timer_ns, now);
	if (((mt_control_bits() & SAMPLING_BITS) || rounds_seen < mt_rounds_count()) &&
	    until(cleaned_ns + ASKED_PAUSE_NS, now) < span)
		span = until(cleaned_ns + ASKED_PAUSE_NS, now);
	return span;
}

/* The exit system call of the main thread alone runs no handler of ours, and the kernel ends the
 * process with its last thread: that must not be ours. Others of the program's may go on, without
 * cleanups. */
static bool main_has_left(void)
{
	if (!mt_main_thread_has_ended())
		return false;
	atomic_store_explicit(&leaves, true, memory_order_release);
	mt_log(MT_LOG_INFO,
	       "the main thread has ended by the exit system call: no cleanups from now on");
	mt_publish_end(mt_config(), false);
	return true;
}

static void loop(void)
{
	uint64_t next_tick_ns = 0;

	for (;;) {
		uint32_t word = mt_control_word();
		/* once: one that is set later stays for the next turn */
		uint32_t bits = mt_control_bits();
		bool grown = bits & MT_CONTROL_GROWTH;
		uint64_t pressure_ns;
		uint64_t now;

		if (atomic_load_explicit(&leaves, memory_order_acquire) || main_has_left())
			return;
		atomic_store_explicit(&dozes, false, memory_order_relaxed);
		mt_requests_answer(&cleaned_ns);
		answer_control(bits);
		run_round_timer(mt_os_now_ns());
		/* before the tick: near a limit threads grow or wait meanwhile */
		pressure_ns = mt_pressure_tick(mt_os_now_ns());
		now = mt_os_now_ns();
		if (grown || now >= next_tick_ns) {
			atomic_store(&has_grown, false);
			next_tick_ns = now + mt_tick_run(grown);
		}
		clean_rounds();
		now = mt_os_now_ns();
		atomic_store(&dozes, next_tick_ns > now + 2 * mt_config()->tick_ms * MT_NS_PER_MS);
		if (atomic_load(&has_grown) && atomic_load_explicit(&dozes, memory_order_relaxed))
			mt_control_notify(MT_CONTROL_GROWTH);
		mt_control_wait(word, sleep_ns(now, next_tick_ns, pressure_ns));
	}
}

/* It may have gone since the start. False: the thread is to leave meanwhile. */
static bool wait_for_room(void)
{
	for (;;) {
		uint32_t word = mt_control_word();

		if (atomic_load_explicit(&leaves, memory_order_acquire) || main_has_left())
			return false;
		if (mt_thread_has_room())
			return true;
		mt_control_wait(word, MT_NS_PER_S);
	}
}

static void *thread_main(void *unused)
{
	bool apart;

	(void)unused;
	mt_raw_clone_mark();
	mt_reclaim_exempt();
	(void)prctl(PR_SET_NAME, "mtshim");
	/* A table of descriptors of its own, and empty: a number that we hold for a moment is never
	 * one that the program is just given, nor closes. Older kernels refuse, and go without. */
	apart = mt_raw_syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) == 0;
	if (apart) {
		mt_log_stand_apart();
		mt_rss_keep_open();
	}
	atomic_store_explicit(&thread_id, mt_os_gettid(), memory_order_relaxed);
	if (wait_for_room()) {
		mt_tick_start();
		mt_heap_profile_start();
		mt_control_use_file(apart);
		loop();
	}
	mt_reclaim_off();
	if (mt_main_thread_has_ended())
		mt_main_exit_follow_main();
	/* one that is set rings no second time, and the next of us may have to leave as well */
	mt_control_clear(MT_CONTROL_EXIT);
	mt_thread_forget(&thread);
	return NULL;
}

bool mt_worker_start(void)
{
	if (atomic_load_explicit(&leaves, memory_order_acquire))
		return false;
	if (!mt_worker_is_running())
		mt_reclaim_expect_look();
	return mt_thread_start(&thread, thread_main, STACK_BYTES);
}

void mt_worker_leave(void)
{
	atomic_store_explicit(&leaves, true, memory_order_release);
	mt_control_notify(MT_CONTROL_EXIT);
}

bool mt_worker_is_leaving(void)
{
	pid_t id = atomic_load_explicit(&thread_id, memory_order_relaxed);

	/* Between its start and its first own words it has no number yet. */
	return mt_worker_is_running() ||
	       (id && mt_raw_syscall(SYS_tgkill, mt_os_getpid(), id, 0) == 0);
}

static void nap(void)
{
	static _Atomic uint32_t nobody_rings;

	(void)mt_os_futex_wait(&nobody_rings, 0, MT_NS_PER_MS, MT_FUTEX_PRIVATE);
}

bool mt_worker_has_same_rights(void)
{
	uint64_t until = mt_os_now_ns() + BIRTH_NS;
	pid_t id;

	while (!(id = atomic_load_explicit(&thread_id, memory_order_relaxed)) &&
	       mt_os_now_ns() < until)
		nap();
	return id && mt_rights_alike(id);
}

bool mt_worker_pause(void)
{
	uint64_t until = mt_os_now_ns() + ASIDE_NS;

	mt_worker_leave();
	while (mt_worker_is_leaving() && mt_os_now_ns() < until)
		nap();
	if (!mt_worker_is_leaving())
		return true;
	mt_worker_resume();
	return false;
}

/* One that is still on its way out stays out until the process grows. */
void mt_worker_resume(void)
{
	if (!mt_worker_is_leaving()) /* the next one tells its own */
		atomic_store_explicit(&thread_id, 0, memory_order_relaxed);
	atomic_store_explicit(&leaves, false, memory_order_release);
	(void)mt_worker_start();
}

void mt_worker_fork_child(void)
{
	mt_thread_forget(&thread);
	atomic_store_explicit(&thread_id, 0, memory_order_relaxed);
	atomic_store_explicit(&leaves, false, memory_order_relaxed);
	atomic_store_explicit(&dozes, false, memory_order_relaxed);
	atomic_store_explicit(&has_grown, false, memory_order_relaxed);
	cleaned_ns = 0;
	rounds_seen = 0;
	round_timer_ns = 0;
	mt_adaptive_rounds_start(&adaptive);
	adaptive_ns = 0;
}
