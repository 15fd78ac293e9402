#include "reaper/pressure.h"

#include <string.h>

#include "account/account.h"
#include "backend/backend.h"
#include "base/config.h"
#include "base/log.h"
#include "base/number.h"
#include "base/os.h"
#include "reaper/actions.h"
#include "reaper/alarm.h"
#include "reaper/gpu.h"
#include "reaper/pending.h"
#include "reaper/pressure_levels.h"
#include "reaper/pressure_text.h"
#include "reaper/throttle.h"
#include "reaper/tick.h"
#include "sense/cgroup.h"
#include "sense/load.h"
#include "sense/psi.h"
#include "sense/rss.h"
#include "stats/publish.h"

#define DEVICES_NS     MT_NS_PER_S        /* the driver is asked at most this often */
#define TELL_PAUSE_NS  (60 * MT_NS_PER_S) /* a level that comes and goes is told at this distance at most */
#define FAST_BYTES_PER_MS (2 * MT_MIB)    /* that a CPU can take and touch */
#define SHORTEST_REST_MS  5
#define LONGEST_REST_MS   100

static struct mt_pressure pressure;
static bool unanswered_event;             /* of the watched file, seen by a look that decided nothing */
static struct mt_pending pending;
static uint64_t devices_ns;               /* when the driver was asked last */
static uint64_t told_ns[MT_PRESSURE_LEVEL_COUNT];

/* What goes into the snapshot beside what the policy sees. */
struct scene {
	struct mt_pressure_look look;
	struct mt_rss_quick rss;
	uint64_t taken_bytes;    /* by the program's threads since the last look, as they tell */
	const char *limit_source;
	struct mt_load load;
	uint64_t cpu_ns;
};

/* ---- the look ---- */

/* Swapped memory changes slowly: where no limit of our own depends on it, the tick's last look will do. */
static uint64_t read_own(const struct mt_config *cfg, const struct mt_rss_quick *quick)
{
	struct mt_rss_full full;
	uint64_t swap;

	if (cfg->rss_limit_mb && mt_rss_read_full(&full))
		return full.rss_bytes + full.swap_bytes;
	swap = mt_publish_lock()->swap_bytes;
	mt_publish_unlock();
	return quick->rss_bytes + swap;
}

static void read_loose(const struct mt_rss_quick *quick, struct mt_pressure_look *out)
{
	struct mt_account_totals totals;

	out->loose_bytes = out->freed_bytes = 0;
	if (mt_backend()->counting == MT_COUNTING_NONE || !mt_account_read(&totals))
		return;
	out->loose_bytes = mt_above(quick->anon_bytes, totals.live_bytes);
	out->freed_bytes = totals.freed_bytes;
}

static struct mt_untouched read_untouched(const struct mt_rss_quick *quick, uint64_t *out_free_bytes)
{
	struct mt_untouched out = {.known = quick->rss_bytes > 0};
	struct mt_heap_figures heap = {0};

	out.space_bytes = (int64_t)(quick->mapped_bytes - quick->rss_bytes);
	out.exact = out.known && mt_backend()->pages && mt_backend()->pages(&heap);
	out.heap_bytes = (int64_t)(heap.active_bytes + heap.dirty_bytes - quick->anon_bytes);
	*out_free_bytes = heap.dirty_bytes;
	return out;
}

static void read_heap(struct scene *out)
{
	struct mt_pressure_look *look = &out->look;
	bool is_limited = look->limit_bytes || mt_pressure_own_limit(mt_config());
	struct mt_untouched now = {.known = false};
	uint64_t free_bytes = 0;

	if (is_limited)
		now = read_untouched(&out->rss, &free_bytes);
	mt_pending_look(&pending, &now, out->taken_bytes, look->now_ns);
	look->pending_bytes = pending.bytes;
	if (pressure.level || pending.bytes)
		read_loose(&out->rss, look);
	if (pending.bytes) /* it counts as live, and is not resident: it may hide as much that is free */
		look->free_bytes = now.exact ? free_bytes : look->loose_bytes + pending.bytes;
}

/* As the tick has published them; near a limit the reaper may have nothing to tick for. */
static void read_devices(struct mt_pressure_look *out)
{
	const struct mt_stats_device *rows;

	if (mt_gpu_is_used() && out->now_ns - devices_ns >= DEVICES_NS) {
		mt_gpu_publish(true);
		devices_ns = out->now_ns;
	}
	out->devices_count = mt_gpu_devices(&rows);
	for (uint32_t i = 0; i < out->devices_count; i++) {
		struct mt_pressure_device *to = &out->devices[i];

		to->ordinal = rows[i].ordinal;
		to->total_bytes = rows[i].free_bytes ? rows[i].total_bytes : 0; /* 0 free: unknown */
		to->used_bytes = mt_above(rows[i].total_bytes, rows[i].free_bytes);
	}
}

/* Memory last: all that is compared is to be of one moment, and the driver may take its time. */
static void look(struct scene *out, uint64_t taken_bytes)
{
	const struct mt_config *cfg = mt_config();
	struct mt_cgroup_look cgroup = {0};
	struct mt_psi_look psi = {0};
	struct mt_load load = {0};
	uint64_t now = mt_os_now_ns();

	mt_cgroup_look("", cfg, now, taken_bytes ? 0 : MT_PRESSURE_HALF_PCT, &cgroup);
	mt_psi_look("", mt_cgroup_directory(), mt_config_facts(), &psi);
	mt_load_look("", now, &load);
	memset(out, 0, sizeof(*out));
	out->taken_bytes = taken_bytes;
	out->look = (struct mt_pressure_look){
		.now_ns = now,
		.used_bytes = cgroup.used_bytes,
		.limit_bytes = cgroup.limit_bytes,
		.exact = cgroup.exact,
		.events_known = cgroup.events_known,
		.events_count = cgroup.events_count,
		.psi_known = psi.known,
		.some_us = psi.some_us,
		.event = psi.event,
		.event_is_psi = psi.event_is_psi,
	};
	read_devices(&out->look);
	(void)mt_rss_read_quick(&out->rss);
	out->look.own_bytes = read_own(cfg, &out->rss);
	out->limit_source = cgroup.source ? cgroup.source : "";
	out->load = load;
	out->cpu_ns = mt_load_process_cpu_ns();
}

/* ---- what is told ---- */

static void fill(const struct scene *scene)
{
	const struct mt_pressure_look *from = &scene->look;
	struct mt_stats_snapshot *to;

	mt_publish_limit_source(scene->limit_source);
	to = mt_publish_lock();
	to->pressure_level = pressure.level;
	to->pressure_used_bytes = from->used_bytes;
	to->pressure_limit_bytes = from->limit_bytes;
	to->psi_some_us = from->some_us;
	to->memory_max_count = from->events_count;
	to->cpu_ns = scene->cpu_ns;
	to->load_thousandths = scene->load.load_thousandths;
	to->cpus_count = scene->load.cpus_count;
	mt_throttle_read(&to->pressure_wait_count, &to->pressure_wait_ns);
	mt_publish_unlock();
}

static void count_levels(enum mt_pressure_level before, const struct mt_pressure_plan *plan)
{
	struct mt_stats_snapshot *to = mt_publish_lock();

	to->pressure_warn_count += plan->entered && before < MT_PRESSURE_WARN;
	to->pressure_critical_count += plan->entered == MT_PRESSURE_CRITICAL;
	mt_publish_unlock();
}

/* A program that goes up and down all day fills no log. */
static enum mt_log_level loudness(const struct mt_pressure_plan *plan, uint64_t now_ns)
{
	uint64_t *told = &told_ns[plan->entered];

	if (plan->over || (*told && now_ns - *told < TELL_PAUSE_NS))
		return MT_LOG_INFO;
	*told = now_ns;
	return MT_LOG_WARN;
}

static void tell(const struct scene *scene, const struct mt_pressure_plan *plan)
{
	const struct mt_config *cfg = mt_config();
	const struct mt_pressure_scene words = {
		.look = &scene->look,
		.pressure = &pressure,
		.plan = plan,
		.limit_source = scene->limit_source,
		.own_limit_bytes = mt_pressure_own_limit(cfg),
		.load_thousandths = scene->load.load_thousandths,
		.cpus_count = scene->load.cpus_count,
	};
	char line[900];

	if (!plan->entered && !plan->over)
		return;
	if (!cfg->pressure && !pressure.levels[MT_PRESSURE_RSS])
		return;
	mt_pressure_describe(&words, line, sizeof(line));
	mt_log(loudness(plan, scene->look.now_ns), "%s", line);
}

/* ---- acting ---- */

static void count_cleanup(const struct mt_stats_record *record)
{
	struct mt_stats_snapshot *to = mt_publish_lock();

	to->pressure_clean_count++;
	to->pressure_returned_bytes += mt_above(record->rss_before_bytes, record->rss_after_bytes);
	mt_publish_unlock();
}

/* True: it has returned something. The budget does not hold it back, and is charged for it: what the program's other purges may
 * cost is that much less. */
static bool carry_out(const struct mt_pressure_plan *plan, const struct mt_pressure_look *before)
{
	const struct mt_config *cfg = mt_config();
	const struct mt_order order = {
		.reason = plan->reason,
		.level = plan->cleanup,
		.flush_gpu = plan->flush_gpu,
		.pressure = {plan->sources, plan->level, plan->used_bytes, plan->limit_bytes},
	};
	struct mt_pressure_outcome outcome = {.after = *before};
	struct mt_rss_quick rss = {0};
	struct mt_stats_record record;

	mt_actions_clean(&order, &record);
	count_cleanup(&record);
	mt_tick_note_cleanup(&record, true);
	outcome.after.now_ns = devices_ns = mt_os_now_ns();
	(void)mt_rss_read_quick(&rss);
	outcome.after.own_bytes = read_own(cfg, &rss);
	read_loose(&rss, &outcome.after);
	read_devices(&outcome.after);
	outcome.returned_bytes = mt_above(record.anon_before_bytes, record.anon_after_bytes);
	outcome.gpu_returned_bytes = mt_above(record.gpu_before_bytes, record.gpu_after_bytes);
	if (mt_pressure_cleaned(&pressure, plan, &outcome, cfg))
		mt_alarm_raise(mt_pressure_own_limit(cfg));
	return outcome.returned_bytes >= MT_PRESSURE_LEAST_BYTES;
}

static bool is_due(uint64_t now_ns)
{
	const struct mt_stats_snapshot *seen = mt_publish_lock();
	uint64_t own = seen->rss_bytes + seen->swap_bytes;

	mt_publish_unlock();
	return mt_pressure_is_due(&pressure, now_ns, own);
}

/* How far the program may grow until the next look. */
static void allow(const struct mt_pressure_look *now)
{
	struct mt_pressure_allowance allowance;

	mt_pressure_allow(now, mt_config(), &allowance);
	if (allowance.limited)
		mt_throttle_set(allowance.ring_bytes, allowance.unseen_bytes, allowance.leap_bytes);
	else
		mt_throttle_off();
}

/* Threads that take and free again, and are served from the same pages, would ring a thousand times a second: after a look that
 * has found no growth only leaps do for as long as fast ones take to the end of what they may, with what is pending taken off. And
 * a look that finds the limit near and nothing that could go is no help to who waits for it. */
static void judge_look(const struct scene *scene, uint64_t own_before, bool of_use)
{
	const struct mt_pressure_look *now = &scene->look;
	bool has_grown = mt_above(now->own_bytes, own_before) >= scene->taken_bytes / 4;
	uint64_t left = mt_above(now->limit_bytes, now->used_bytes + now->pending_bytes);
	uint64_t ms = left / 4 / FAST_BYTES_PER_MS / (scene->load.cpus_count + 1);

	if (ms < SHORTEST_REST_MS)
		ms = SHORTEST_REST_MS;
	if (of_use)
		mt_throttle_watch();
	else if (scene->taken_bytes && !has_grown)
		mt_throttle_rest((ms < LONGEST_REST_MS ? ms : LONGEST_REST_MS) * MT_NS_PER_MS);
	else if (pressure.level == MT_PRESSURE_CRITICAL)
		mt_throttle_rest(0);
	else if (scene->taken_bytes)
		mt_throttle_watch();
}

static void look_and_act(void)
{
	enum mt_pressure_level before = pressure.level;
	uint64_t own_before = pressure.seen_own_bytes;
	struct mt_pressure_plan plan;
	struct scene scene;
	bool of_use = false;

	mt_pending_discarded(&pending, mt_actions_discarded_bytes());
	look(&scene, mt_throttle_begin());
	read_heap(&scene);
	scene.look.event |= unanswered_event;
	unanswered_event = false;
	plan = mt_pressure_decide(&pressure, &scene.look, mt_config(), mt_config_facts());
	allow(&scene.look);
	fill(&scene);
	count_levels(before, &plan);
	tell(&scene, &plan);
	if (plan.clean)
		of_use = carry_out(&plan, &scene.look);
	judge_look(&scene, own_before, of_use);
	if (before || pressure.level) /* else it goes with the next tick */
		mt_publish_write();
}

uint64_t mt_pressure_tick(uint64_t now_ns)
{
	if (mt_throttle_has_rung() || is_due(now_ns))
		look_and_act();
	mt_throttle_release();
	return mt_pressure_wake_ns(&pressure);
}

void mt_pressure_refresh(void)
{
	struct scene scene;

	look(&scene, 0);
	unanswered_event |= scene.look.event;
	fill(&scene);
}

void mt_pressure_fork_child(void)
{
	memset(&pressure, 0, sizeof(pressure));
	memset(told_ns, 0, sizeof(told_ns));
	mt_pending_fork_child(&pending);
	mt_throttle_fork_child();
	unanswered_event = false;
	devices_ns = 0;
	mt_cgroup_fork_child();
	mt_psi_fork_child();
	mt_load_fork_child();
}
