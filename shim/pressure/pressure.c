/* pressure/pressure.c -- the component: samples the limits of the container, the machine and the
 * devices, and cleans up when usage comes close. Worker thread only. */
#include <string.h>

#include "core/cgroup.h"
#include "core/cleanup.h"
#include "core/components.h"
#include "core/services.h"
#include "core/config.h"
#include "core/log.h"
#include "core/publish.h"
#include "core/thread.h"
#include "heap/account.h"
#include "pressure/pressure_internal.h"
#include "sys/format.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"

/* shortest time between two requests to the driver */
#define DEVICES_NS MT_NS_PER_S
/* shortest time between two warnings about the same level */
#define LOG_PAUSE_NS (60 * MT_NS_PER_S)
#define HEAP_READS   3 /* most attempts to read all figures at one moment */

static struct mt_pressure pressure;
static uint64_t devices_ns; /* when the driver was asked last */
static uint64_t logged_ns[MT_PRESSURE_LEVEL_COUNT];

/* One sample, with the figures for the stats file that the policy does not need. */
struct sample {
	struct mt_pressure_sample input;
	struct mt_rss_quick rss;
	bool heap_known;
	struct mt_heap_size heap;
	const char *limit_source;
	struct mt_load load;
	uint64_t cpu_ns;
};

/* ---- reading ---- */

/* Swapped memory changes slowly: without MT_RSS_LIMIT_MB the figure of the last tick serves. */
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

/* Reads the devices as published; near a limit the worker may not tick, so it publishes them
 * first. */
static void read_devices(struct mt_pressure_sample *out)
{
	const struct mt_stats_device *rows;

	if (mt_devices_are_used() && out->now_ns - devices_ns >= DEVICES_NS) {
		mt_components_publish(true);
		devices_ns = out->now_ns;
	}
	out->devices_count = mt_devices_rows(&rows);
	mt_assert(out->devices_count <= MT_DEVICES_COUNT);
	for (uint32_t i = 0; i < out->devices_count; i++) {
		struct mt_pressure_device *to = &out->devices[i];

		to->ordinal = rows[i].ordinal;
		/* 0 free: unknown */
		to->total_bytes = rows[i].free_bytes ? rows[i].total_bytes : 0;
		/* The program can allocate what the pool has cached. */
		to->used_bytes =
			mt_sat_sub(rows[i].total_bytes,
				   rows[i].free_bytes + rows[i].pending_bytes + rows[i].idle_bytes);
	}
}

/* Reads limit, process and heap until the heap does not grow by 1 MB in between. */
static void read_memory(struct sample *out, bool exact_figures, struct mt_cgroup_sample *cgroup)
{
	struct mt_heap_size before = {0};
	int64_t grown;

	for (int i = 0; i < HEAP_READS; i++) {
		(void)mt_reclaim_read_heap(&before);
		mt_cgroup_read("", mt_config(), mt_os_now_ns(),
			       exact_figures ? 0 : MT_PRESSURE_HALF_PCT, cgroup);
		(void)mt_rss_read_quick(&out->rss);
		out->heap_known = mt_reclaim_read_heap(&out->heap);
		grown = out->heap.held_bytes + out->heap.free_bytes - before.held_bytes -
			before.free_bytes;
		if (grown < (int64_t)MT_MIB && grown > -(int64_t)MT_MIB)
			break;
	}
}

static void tell_of_missing_group(const char *directory)
{
	static bool is_told;

	if (!is_told)
		mt_log(MT_LOG_WARN,
		       "MT_CGROUP=%s: has neither memory.current nor memory.usage_in_bytes; using "
		       "the process's own cgroup",
		       directory);
	is_told = true;
}

/* exact_figures: read the exact usage, however far the limit seems. */
static void read_sample(struct sample *out, bool exact_figures)
{
	const struct mt_config *cfg = mt_config();
	struct mt_cgroup_sample cgroup = {0};
	struct mt_psi_sample psi = {0};
	struct mt_load load = {0};
	uint64_t now = mt_os_now_ns();

	mt_assert(mt_thread_is_ours());
	memset(out, 0, sizeof(*out));
	read_memory(out, exact_figures, &cgroup);
	if (cgroup.is_without_given)
		tell_of_missing_group(cfg->cgroup);
	mt_cgroup_psi_read("", mt_cgroup_directory(), mt_config_launch_env()->pressure_watch, &psi);
	mt_cgroup_load_read("", now, &load);
	out->input = (struct mt_pressure_sample){
		.now_ns = now,
		.used_bytes = cgroup.used_bytes,
		.limit_bytes = cgroup.limit_bytes,
		.exact = cgroup.exact,
		.events_known = cgroup.events_known,
		.events_count = cgroup.events_count,
		.is_machines = !cgroup.is_cgroup && cgroup.limit_bytes != cfg->limit_mb * MT_MIB,
		.psi_known = psi.known,
		.psi_is_own = psi.is_own,
		.some_us = psi.some_us,
	};
	read_devices(&out->input);
	out->input.own_bytes = read_own(cfg, &out->rss);
	out->limit_source = cgroup.source ? cgroup.source : "";
	out->load = load;
	out->cpu_ns = mt_os_process_cpu_ns();
}

/* ---- publishing and logging ---- */

static void fill(const struct sample *sample)
{
	const struct mt_pressure_sample *from = &sample->input;
	struct mt_stats_snapshot *to;

	mt_publish_set_limit_source(sample->limit_source);
	to = mt_publish_lock();
	to->pressure_level = pressure.level;
	to->pressure_used_bytes = from->used_bytes;
	to->pressure_limit_bytes = from->limit_bytes;
	to->psi_some_ns = from->some_us * 1000;
	to->memory_max_count = from->events_count;
	to->cpu_ns = sample->cpu_ns;
	to->load_thousandths = sample->load.load_thousandths;
	to->cpus_count = sample->load.cpus_count;
	mt_reclaim_read_counters(&to->pressure_wait_count, &to->pressure_wait_ns);
	mt_publish_unlock();
}

static void count_levels(enum mt_pressure_level before, const struct mt_pressure_plan *plan)
{
	struct mt_stats_snapshot *to = mt_publish_lock();

	to->pressure_warn_count += plan->entered && before < MT_PRESSURE_WARN;
	to->pressure_critical_count += plan->entered == MT_PRESSURE_CRITICAL;
	mt_publish_unlock();
}

/* Warns only every LOG_PAUSE_NS about a level that comes and goes. */
static enum mt_log_level log_level(const struct mt_pressure_plan *plan, uint64_t now_ns)
{
	uint64_t *told = &logged_ns[pressure.own_level];

	mt_assert(pressure.own_level < MT_PRESSURE_LEVEL_COUNT);
	if (!plan->warns || (*told && now_ns - *told < LOG_PAUSE_NS))
		return MT_LOG_INFO;
	*told = now_ns;
	return MT_LOG_WARN;
}

static void log_plan(const struct sample *sample, const struct mt_pressure_plan *plan)
{
	const struct mt_config *cfg = mt_config();
	const struct mt_pressure_report report = {
		.sample = &sample->input,
		.pressure = &pressure,
		.plan = plan,
		.limit_source = sample->limit_source,
		.own_limit_bytes = mt_pressure_own_limit(cfg),
		.load_thousandths = sample->load.load_thousandths,
		.cpus_count = sample->load.cpus_count,
	};
	char line[900];

	if (!plan->entered && !plan->over && !plan->warns)
		return;
	if (!cfg->pressure && !pressure.levels[MT_PRESSURE_RSS])
		return;
	mt_pressure_format(&report, line, sizeof(line));
	mt_log(log_level(plan, sample->input.now_ns), "%s", line);
}

/* ---- the report of MT_RSS_LIMIT_MB ---- */

/* ---- memory by owner ---- */

static void fill_shares(struct mt_stats_limit_report *limit_report,
			const struct mt_stats_snapshot *figures, bool resident_known)
{
	uint64_t heap;

	limit_report->heap_live_bytes = figures->heap_live_bytes;
	limit_report->heap_dirty_bytes = figures->heap_dirty_bytes;
	limit_report->heap_metadata_bytes = figures->heap_metadata_bytes;
	heap = limit_report->heap_live_bytes + limit_report->heap_dirty_bytes +
	       limit_report->heap_metadata_bytes;
	if (resident_known)
		limit_report->heap_pinned_bytes = mt_sat_sub(figures->heap_resident_bytes, heap);
	limit_report->other_anon_bytes =
		mt_sat_sub(limit_report->anon_bytes + limit_report->swap_bytes,
			   heap + limit_report->heap_pinned_bytes);
	limit_report->gpu_pinned_bytes = figures->gpu_pinned_bytes;
}

struct share {
	uint64_t bytes;
	const char *advice;
};

static const char *choose_advice(const struct mt_stats_limit_report *limit_report,
				 bool resident_known)
{
	const struct share shares[] = {
		{limit_report->heap_live_bytes,
		 "the program holds it: mtctl diagnose tells whether it "
		 "grows, mtctl sites which code it "
		 "comes from (MT_PROF=on)"},
		{limit_report->heap_pinned_bytes,
		 "free blocks share pages with live ones: fewer arenas "
		 "(MT_ARENA_MAX=2), or smaller "
		 "slabs (MT_MALLOC_CONF)"},
		{limit_report->heap_dirty_bytes,
		 "free, but not returned: mtctl doctor tells what this allocator can do, "
		 "MT_ALLOCATOR=jemalloc changes it"},
		{limit_report->other_anon_bytes,
		 resident_known ? "not of the heap: stacks of many threads, mmap, allocators of "
				  "libraries; mtctl diagnose names them"
				: "stacks, mmap, or free blocks that this allocator keeps: "
				  "MT_ALLOCATOR=jemalloc tells them apart"},
		{limit_report->file_bytes,
		 "pages of mapped files, which the kernel takes back by itself: "
		 "raise MT_RSS_LIMIT_MB"},
		{limit_report->shmem_bytes,
		 "shared memory: see /dev/shm, and how many workers hand data on through it"},
	};
	const struct share *largest = &shares[0];

	/* It is part of the other shares too, whose advice would not fit. */
	if (limit_report->gpu_pinned_bytes > limit_report->rss_bytes / 3)
		return "page-locked for CUDA: pin less (pin_memory, prefetch_factor of data "
		       "loaders)";
	for (size_t i = 1; i < sizeof(shares) / sizeof(shares[0]); i++)
		if (shares[i].bytes > largest->bytes)
			largest = &shares[i];
	return largest->advice;
}

void mt_pressure_rss_limit_attribute(struct mt_stats_limit_report *limit_report,
				     const struct mt_stats_snapshot *figures, bool resident_known)
{
	fill_shares(limit_report, figures, resident_known);
	(void)mt_format(limit_report->advice, sizeof(limit_report->advice), "%s",
			choose_advice(limit_report, resident_known));
}

/* ---- the report ---- */

/* Each line contains "rss-limit", for grep. */
static void print(const struct mt_stats_limit_report *limit_report)
{
	mt_log(MT_LOG_WARN,
	       "rss-limit: this process holds %llu MB, and MT_RSS_LIMIT_MB is %llu: resident %llu "
	       "MB, swapped %llu MB, after a cleanup",
	       MT_MB(limit_report->rss_bytes + limit_report->swap_bytes),
	       MT_MB(limit_report->limit_bytes), MT_MB(limit_report->rss_bytes),
	       MT_MB(limit_report->swap_bytes));
	mt_log(MT_LOG_WARN,
	       "rss-limit: heap: live %llu MB, free and not returned %llu MB, free but pinned by "
	       "live blocks %llu MB, the allocator's own %llu MB",
	       MT_MB(limit_report->heap_live_bytes), MT_MB(limit_report->heap_dirty_bytes),
	       MT_MB(limit_report->heap_pinned_bytes), MT_MB(limit_report->heap_metadata_bytes));
	mt_log(MT_LOG_WARN,
	       "rss-limit: outside the heap: other anonymous memory %llu MB, files %llu MB, shared "
	       "memory %llu MB, page-locked for CUDA %llu MB, %llu threads",
	       MT_MB(limit_report->other_anon_bytes), MT_MB(limit_report->file_bytes),
	       MT_MB(limit_report->shmem_bytes), MT_MB(limit_report->gpu_pinned_bytes),
	       (unsigned long long)limit_report->threads_count);
	mt_log(MT_LOG_WARN, "rss-limit: what to do: %s", limit_report->advice);
}

/* Reads the process, logs and publishes the report. Call it right after a cleanup. */
static void report_rss_limit(uint64_t limit_bytes)
{
	struct mt_stats_limit_report limit_report = {.time_ns = mt_os_realtime_ns(),
						     .limit_bytes = limit_bytes};
	const struct mt_stats_snapshot *figures;
	struct mt_rss_full full;

	if (!mt_rss_read_full(&full))
		return;
	limit_report.rss_bytes = full.rss_bytes;
	limit_report.anon_bytes = full.anon_bytes;
	limit_report.file_bytes = full.file_bytes;
	limit_report.shmem_bytes = full.shmem_bytes;
	limit_report.swap_bytes = full.swap_bytes;
	limit_report.threads_count = mt_os_own_procstat_number(MT_PROCSTAT_THREADS);
	figures = mt_publish_lock();
	mt_pressure_rss_limit_attribute(&limit_report, figures, figures->heap_resident_bytes != 0);
	mt_publish_unlock();
	print(&limit_report);
	mt_publish_add_limit_report(&limit_report);
}

/* ---- cleanups ---- */

static void count_cleanup(const struct mt_stats_cleanup *cleanup)
{
	struct mt_stats_snapshot *to = mt_publish_lock();

	to->pressure_clean_count++;
	to->pressure_returned_bytes +=
		mt_sat_sub(cleanup->rss_before_bytes, cleanup->rss_after_bytes);
	mt_publish_unlock();
}

/* Runs the cleanup. The purge budget does not limit it, but is charged for it. */
static void run_cleanup(const struct mt_pressure_plan *plan,
			const struct mt_pressure_sample *before)
{
	const struct mt_config *cfg = mt_config();
	const struct mt_trim_request request = {
		.reason = plan->reason,
		.level = plan->cleanup,
		.flush_gpu = plan->flush_gpu,
		.pressure = {plan->sources, plan->level, plan->used_bytes, plan->limit_bytes},
	};
	struct mt_pressure_outcome outcome = {.after = *before};
	struct mt_rss_quick rss = {0};
	struct mt_stats_cleanup cleanup;

	mt_assert(mt_thread_is_ours() && plan->clean);
	mt_cleanup_run(&request, &cleanup);
	count_cleanup(&cleanup);
	mt_components_cleaned(&cleanup, true);
	outcome.after.now_ns = devices_ns = mt_os_now_ns();
	(void)mt_rss_read_quick(&rss);
	outcome.after.own_bytes = read_own(cfg, &rss);
	read_devices(&outcome.after);
	outcome.returned_bytes = mt_sat_sub(cleanup.anon_before_bytes, cleanup.anon_after_bytes);
	outcome.gpu_returned_bytes = mt_sat_sub(cleanup.gpu_before_bytes, cleanup.gpu_after_bytes);
	if (mt_pressure_note_cleanup(&pressure, plan, &outcome, cfg))
		report_rss_limit(mt_pressure_own_limit(cfg));
}

static bool is_due(uint64_t now_ns)
{
	const struct mt_stats_snapshot *seen = mt_publish_lock();
	uint64_t own = seen->rss_bytes + seen->swap_bytes;

	mt_publish_unlock();
	return mt_pressure_is_due(&pressure, now_ns, own);
}

/* Tells direct reclaim how far the program may grow until the next sample. If several processes
 * train together, none waits for a collection. */
static void limit_growth(const struct sample *sample, bool purged)
{
	const struct mt_pressure_sample *now = &sample->input;
	const struct mt_pressure_thresholds at = mt_pressure_limit_thresholds(mt_config());
	bool may_collect = mt_config_launch_env()->world_size <= 1;
	struct mt_headroom_sample growth = {
		.now_ns = now->now_ns,
		.used_bytes = now->used_bytes,
		.limit_bytes = now->limit_bytes,
		.anon_bytes = sample->rss.anon_bytes,
		.heap = sample->heap,
		.critical_bytes =
			may_collect ? mt_pressure_share_of(now->limit_bytes, at.critical) : 0,
		.clear_bytes = mt_pressure_share_of(now->limit_bytes, at.keep_critical),
		.purged = purged,
	};

	if (sample->heap_known &&
	    mt_pressure_limits_growth(now, mt_config(), &growth.sample_growth_bytes))
		mt_reclaim_set_ceiling(&growth);
	else
		mt_reclaim_disable();
}

/* Prepares a collection by a thread near the limit, which opens no file and calls no loader. Last
 * in a sample, since the loader may block. */
static void prepare_collection(void)
{
	if (pressure.level && mt_interpreter_is_running())
		(void)mt_rss_shared_are_few();
	mt_black_box_prepare();
	mt_interpreter_expedite();
}

static void note_in_black_box(const struct sample *sample)
{
	const struct mt_pressure_sample *from = &sample->input;
	const struct mt_black_box_sample now = {
		.now_ns = from->now_ns,
		.used_bytes = from->used_bytes,
		.limit_bytes = from->limit_bytes,
		.exact = from->exact,
		.is_critical = pressure.levels[MT_PRESSURE_LIMIT] == MT_PRESSURE_CRITICAL,
		.own_bytes = sample->rss.rss_bytes,
		.source = sample->limit_source,
	};

	mt_black_box_note(&now);
}

static void sample_and_act(bool sample_requested)
{
	enum mt_pressure_level before = pressure.level;
	bool purged = mt_reclaim_begin_sample();
	struct mt_pressure_plan plan;
	struct sample sample;

	mt_assert(mt_thread_is_ours());
	read_sample(&sample, sample_requested);
	plan = mt_pressure_decide(&pressure, &sample.input, mt_config(), mt_config_launch_env());
	limit_growth(&sample, purged);
	fill(&sample);
	count_levels(before, &plan);
	log_plan(&sample, &plan);
	note_in_black_box(&sample);
	if (plan.clean)
		run_cleanup(&plan, &sample.input);
	else
		mt_reclaim_run_on_worker();
	prepare_collection();
	if (before || pressure.level) /* else the next tick writes it */
		mt_publish_write();
}

static uint64_t tick(uint64_t now_ns, uint32_t bits)
{
	uint64_t wake_ns = UINT64_MAX;
	bool is_requested = mt_reclaim_wants_sample(now_ns, &wake_ns);

	(void)bits;
	if (is_requested || is_due(now_ns))
		sample_and_act(is_requested);
	return mt_min_u64(wake_ns, mt_pressure_wake_ns(&pressure));
}

static void refresh(void)
{
	struct sample sample;

	read_sample(&sample, false);
	fill(&sample);
}

static void fork_child(void)
{
	memset(&pressure, 0, sizeof(pressure));
	memset(logged_ns, 0, sizeof(logged_ns));
	mt_reclaim_fork_child();
	mt_black_box_fork_child();
	devices_ns = 0;
	mt_cgroup_of(0);
	mt_cgroup_psi_fork_child();
	mt_cgroup_load_fork_child();
}

static bool note_growth(uint64_t fresh_bytes)
{
	bool reclaim_is_due = mt_reclaim_count(fresh_bytes);

	return mt_black_box_sites_count(fresh_bytes) || reclaim_is_due;
}

/* The site first: its thread may wait in the reclaim, and the kernel kill it there. */
static void run_growth(uint64_t fresh_bytes)
{
	mt_black_box_sites_note();
	mt_reclaim_run(fresh_bytes);
}

static void finish(void)
{
	mt_reclaim_disable();
	mt_black_box_stop();
}

static void serve(bool on)
{
	static const struct mt_allocation_listener listener = {
		.note = note_growth,
		.run = run_growth,
		.freed_large = mt_reclaim_after_large_free,
		.purged = mt_reclaim_note_purge,
	};

	if (on)
		mt_account_event_listen(&listener);
}

const struct mt_component mt_pressure_component = {
	.name = "pressure",
	.serve = serve,
	.before_start = mt_reclaim_expect_sample,
	.finish = finish,
	.fork_child = fork_child,
	.tick = tick,
	.refresh = refresh,
};
