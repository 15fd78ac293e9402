/* ctl/cmd/stat.c -- `mtctl stat`: the memory and cleanups of a process. */
#include "ctl/cmd/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/channel/target.h"
#include "ctl/figures/stats_file.h"
#include "ctl/figures/figures.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/limit.h"

#define EVERY_MS          2000u
#define EVERY_MIN_SECONDS 0.01

static void print_json(const struct mt_target *target, const struct mt_stat_view *view)
{
	json_t *root = mt_stats_json(target);

	if (!view->cached) /* as `serve` has it: what the process has published, and no more */
		mt_json_set(root, "odd", mt_findings_json(view->found, 0));
	mt_json_print(root, !view->watch);
}

static void print(const struct mt_target *target, const struct mt_stat_view *view)
{
	if (!view->json && view->watch && isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	if (view->oom)
		view->json ? mt_stats_json_print_oom(target, !view->watch)
			   : mt_stat_print_oom_text(target);
	else if (view->json)
		print_json(target, view);
	else
		mt_stat_print_text(target, view);
	fflush(stdout);
}

/* Reads the process once, and prints it. */
static int show_once(struct mt_target *target, struct mt_stat_view *view)
{
	struct mt_facts *facts = mt_error_check_memory(calloc(1, sizeof(*facts)));
	struct mt_diagnosis found = {.count = 0};
	struct mt_error_reason why;
	enum mt_err error = mt_diagnose_look(&target->process, view->cached, facts, &why);
	int code = error ? mt_target_fail(&target->process, error, &why) : MT_EXIT_OK;

	if (!error) {
		target->file = facts->first;
		if (!view->oom)
			mt_findings_of_one_look(facts, &found);
		view->facts = facts;
		view->found = &found;
		print(target, view);
	}
	mt_diagnosis_free(&found);
	free(facts);
	return code;
}

static int show(struct mt_target *target, const char *pid, struct mt_stat_view *view)
{
	int code = mt_target_find(pid, &target->process);

	if (code != MT_EXIT_OK)
		return code;
	for (;;) {
		code = show_once(target, view);
		if (code != MT_EXIT_OK)
			return code;
		if (!view->watch || ferror(stdout))
			return MT_EXIT_OK;
		mt_clock_sleep_ms((unsigned)view->every_ms);
		if (!mt_process_is_alive(&target->process))
			return MT_EXIT_OK;
	}
}

static bool take_watch(const struct mt_option *option, const char *text)
{
	struct mt_stat_view *view = option->target;
	struct mt_option every = *option;

	view->watch = true;
	every.target = &view->every_ms;
	every.min = EVERY_MIN_SECONDS;
	return !text || mt_option_ms(&every, text);
}

int mt_command_stat(int argc, char **argv)
{
	struct mt_stat_view view = {.every_ms = EVERY_MS};
	const struct mt_option options[] = {
		{.name = "json", .target = &view.json},
		{.name = "watch", .target = &view, .take = take_watch, .value_optional = true},
		{.name = "all", .target = &view.all},
		{.name = "records", .target = &view.records},
		{.name = "samples", .target = &view.samples},
		{.name = "cached", .target = &view.cached},
		{.name = "oom", .target = &view.oom},
		{0}};
	const struct mt_command_line line = {"stat", NULL, options, 1, 1};
	struct mt_target *target;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	target = mt_error_check_memory(malloc(sizeof(*target)));
	code = show(target, argv[optind], &view);
	free(target);
	return code;
}

/* ---- stat text ---- */

#define LABEL     "%-10s "
#define BAR_CELLS 50
#define BAR_FROM  23 /* its column */
#define ODD_SHOWN 3

/* A smaller difference of charge and RSS is page tables and the kernel's stocks. */
#define NOTABLE_BYTES (16u << 20)

static void print_title(const struct mt_target *target)
{
	const struct mt_stats_head *head = &target->file.head;

	printf("%sprocess %d (%s)%s, awake for %s, figures of %s\n",
	       mt_table_colour(MT_COLOUR_HEAD), (int)target->process.pid, target->process.comm,
	       mt_table_colour_end(), mt_text_span(head->snapshot.uptime_ms * 1000000u).text,
	       mt_text_clock(head->time_ns).text);
}

static void print_rank(const struct mt_stats_head *head)
{
	if (!*head->rank)
		return;
	printf(LABEL "%s", "rank", head->rank);
	if (head->world_size)
		printf(" of %" PRIu64, head->world_size);
	printf(" (%s)\n", head->rank_source);
}

static void print_parts(const struct mt_stats_snapshot *now)
{
	const struct mt_memory_parts parts = mt_memory_parts_of_snapshot(now, now->rss_bytes);
	const bool is_known = mt_memory_parts_are_known(now);
	int columns, rows, cells = BAR_CELLS;

	mt_table_screen(&columns, &rows);
	if (columns && columns < BAR_FROM + BAR_CELLS)
		cells = columns > BAR_FROM ? columns - BAR_FROM : 1;
	printf(LABEL "%10s  %s\n", "RSS", mt_text_bytes(now->rss_bytes).text,
	       mt_parts_bar(&parts, now->rss_bytes, cells).text);
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		printf("  %-8s %10s  %s %s\n", mt_memory_part_word((enum mt_memory_part)i),
		       is_known || i >= MT_PART_FILES ? mt_text_bytes(parts.bytes[i]).text : "-",
		       mt_parts_bar_cell((enum mt_memory_part)i).text,
		       mt_memory_part_meaning((enum mt_memory_part)i));
	if (!is_known)
		puts("           live and reusable are in other: the allocator does not count "
		     "them");
	printf(LABEL "%10s  the highest RSS", "peak", mt_text_bytes(now->rss_peak_bytes).text);
	if (is_known)
		printf("; highest live at a tick %s",
		       mt_text_bytes(now->heap_live_peak_bytes).text);
	putchar('\n');
}

/* Returns what the memory cgroup is charged for anonymous memory; 0 if it has other processes,
 * or none is known. */
static uint64_t charged_bytes(const struct mt_facts *facts)
{
	const struct mt_diagnose_group *group = &facts->group;
	char path[540], *list;
	bool is_alone;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group->directory);
	list = group->known ? mt_cgroup_file_read(path) : NULL;
	is_alone = list && strtol(list, NULL, 10) == facts->process.pid && strchr(list, '\n') &&
		   strchr(list, '\n') == strrchr(list, '\n');
	free(list);
	return is_alone ? mt_sat_sub(group->usage_bytes, group->file_bytes) : 0;
}

/* What huge pages do to a process, and RSS does not show. */
static void print_huge_pages(const struct mt_target *target, const struct mt_facts *facts)
{
	const struct mt_stats_snapshot *now = &target->file.head.snapshot;
	uint64_t charged = facts ? charged_bytes(facts) : 0;

	if (facts && facts->smaps_known && facts->smaps.huge_bytes)
		printf(LABEL "%10s  of RSS in transparent huge pages (AnonHugePages)\n", "huge",
		       mt_text_bytes(facts->smaps.huge_bytes).text);
	if (charged > now->rss_anon_bytes + now->rss_anon_bytes / 10 + NOTABLE_BYTES)
		printf(LABEL "%10s  charged to the cgroup without its files; RSS has %s of it\n",
		       "charge", mt_text_bytes(charged).text,
		       mt_text_bytes(now->rss_anon_bytes).text);
}

static void print_limit(const struct mt_stats_file *file)
{
	const struct mt_stats_snapshot *now = &file->head.snapshot;

	if (mt_stats_file_is_off(file, "pressure"))
		printf(LABEL "%10s  not looked at (MT_PRESSURE=0)\n", "limit", "?");
	else if (!now->pressure_limit_bytes)
		printf(LABEL "%10s  none is known\n", "limit", "-");
	else
		printf(LABEL "%10s  %.1f %% of it used, pressure %s (%s)\n", "limit",
		       mt_text_bytes(now->pressure_limit_bytes).text,
		       mt_stats_percent(now->pressure_used_bytes, now->pressure_limit_bytes),
		       mt_stats_word_pressure_level(now->pressure_level),
		       *file->head.limit_source ? file->head.limit_source : "?");
}

static void print_gpu(const struct mt_stats_head *head)
{
	const struct mt_stats_snapshot *now = &head->snapshot;

	if (!mt_stats_file_uses_cuda(head))
		return;
	printf(LABEL "%10s  reserved: allocated %s, pending %s, idle %s; other kinds %s\n", "gpu",
	       mt_text_bytes(now->gpu_reserved_bytes).text,
	       mt_text_bytes(now->gpu_allocated_bytes).text,
	       mt_text_bytes(now->gpu_pending_bytes).text, mt_text_bytes(now->gpu_idle_bytes).text,
	       mt_text_bytes(now->gpu_other_bytes).text);
	if (now->gpu_rescue_count)
		printf(LABEL "%10s  returned by other processes in %s, the last time mostly by "
			     "process %" PRIu64 "\n",
		       "rescue", mt_text_bytes(now->gpu_rescue_bytes).text,
		       mt_text_counted(now->gpu_rescue_count, "shortage", "shortages").text,
		       now->gpu_rescue_pid);
}

static void print_total(const struct mt_stats_snapshot *now)
{
	double uptime_ns = (double)now->uptime_ms * 1e6;

	printf(LABEL "%10s  returned by %s, %s light, %s heavy", "cleanups",
	       mt_text_bytes(now->purged_bytes).text,
	       mt_text_counted(now->purge_count, "purge", "purges").text,
	       mt_text_count(now->light_count).text, mt_text_count(now->heavy_count).text);
	if (uptime_ns > 0)
		printf("; %.1f %% of the time",
		       100 * ((double)now->purge_cost_ns + (double)now->refault_cost_ns) /
			       uptime_ns);
	if (now->budget_ratio_thousandths && now->uptime_ms >= MT_BUDGET_ADVANCE_MS)
		printf(", budget %g %% and 0.3 s", (double)now->budget_ratio_thousandths / 10);
	putchar('\n');
}

static void print_last(const struct mt_stats_file *file)
{
	struct mt_cleanup_entry *entries =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*entries)));
	size_t count = mt_cleanup_history(file, entries);
	uint64_t now_ns = mt_clock_realtime_ns();
	const struct mt_stats_cleanup *last = count ? entries[count - 1].cleanup : NULL;

	if (!last) {
		printf(LABEL "%10s  no cleanup yet\n", "last", "-");
	} else {
		printf(LABEL "%10s  %s ago: %s, %s, cost %s", "last",
		       mt_text_change(last->rss_before_bytes, last->rss_after_bytes).text,
		       mt_text_span(now_ns > last->time_ns ? now_ns - last->time_ns : 0).text,
		       mt_stats_word_reason(last->reason), mt_stats_word_level(last->level),
		       mt_text_ns(mt_cleanup_cost_ns(last)).text);
		if (last->gc_state != MT_GC_NONE)
			printf("; gc: %s", mt_cleanup_gc_text(&entries[count - 1]).text);
		putchar('\n');
	}
	free(entries);
}

/* What to do about a finding, behind its text. */
static const char *remedy(const struct mt_finding *finding)
{
	return *finding->command       ? finding->command
	       : finding->advice_count ? finding->advice[0]
				       : finding->environment;
}

/* The weightiest findings of one look. */
static void print_findings(const struct mt_target *target, const struct mt_stat_view *view)
{
	size_t count = view->found ? view->found->count : 0;

	for (size_t i = 0; i < count && i < ODD_SHOWN; i++) {
		const struct mt_finding *finding = &view->found->list[i];
		bool is_cause = finding->verdict != MT_VERDICT_NONE;
		const char *joint = is_cause ? ". " : ": ";

		printf("%s%-10s%s %s%s%s%s%s\n", mt_table_colour(MT_COLOUR_WARN), i ? "" : "odd",
		       mt_table_colour_end(), is_cause ? mt_finding_word(finding) : "",
		       is_cause ? ": " : "", finding->text, *remedy(finding) ? joint : "",
		       remedy(finding));
	}
	if (count > ODD_SHOWN)
		printf(LABEL "and %zu more: mtctl doctor %d\n", "", count - ODD_SHOWN,
		       (int)target->process.pid);
	if (!count)
		printf(LABEL "nothing; `mtctl stat %d --all` has every figure, `mtctl diagnose %d` "
			     "watches it for a minute\n",
		       "odd", (int)target->process.pid, (int)target->process.pid);
}

/* Prints about ten lines: the parts of RSS, peak, limit, cleanups, and what is odd. */
static void stat_print_summary(const struct mt_target *target, const struct mt_stat_view *view)
{
	const struct mt_stats_file *file = &target->file;

	print_title(target);
	print_rank(&file->head);
	print_parts(&file->head.snapshot);
	print_huge_pages(target, view->facts);
	print_limit(file);
	print_gpu(&file->head);
	print_total(&file->head.snapshot);
	print_last(file);
	print_findings(target, view);
}

/* ---- stat pressure ---- */

static void print_thresholds(const struct mt_stats_file *file)
{
	const char *warn = mt_stats_file_setting(file, "warn_pct"),
		   *critical = mt_stats_file_setting(file, "crit_pct");
	const char *clear = mt_stats_file_setting(file, "clear_pct"),
		   *pause = mt_stats_file_setting(file, "cooldown_ms");

	if (warn && critical && clear && pause)
		printf("  %-11swarn at %s %%, critical at %s %%, over %s points lower; %s ms "
		       "between two cleanups\n",
		       "thresholds", warn, critical, clear, pause);
}

/* Prints the level, and the cleanups for pressure. The limit is in the summary. */
static void stat_print_pressure(const struct mt_stats_file *file)
{
	const struct mt_stats_snapshot *now = &file->head.snapshot;
	bool is_off = mt_stats_file_is_off(file, "pressure");

	printf("\n%spressure%s: %s\n", mt_table_colour(MT_COLOUR_HEAD), mt_table_colour_end(),
	       is_off ? "not looked at (MT_PRESSURE=0)"
		      : mt_stats_word_pressure_level(now->pressure_level));
	if (!is_off)
		print_thresholds(file);
	printf("  %-11swarn %s, critical %s; the container has run into its limit %s\n", "reached",
	       mt_text_counted(now->pressure_warn_count, "time", "times").text,
	       mt_text_count(now->pressure_critical_count).text,
	       mt_text_counted(now->memory_max_count, "time", "times").text);
	printf("  %-11stasks have waited for memory for %s (PSI, some)\n", "stalls",
	       mt_text_ns(now->psi_some_ns).text);
	printf("  %-11s%s for pressure, which returned %s\n", "cleanups",
	       mt_text_count(now->pressure_clean_count).text,
	       mt_text_bytes(now->pressure_returned_bytes).text);
	printf("  %-11sthreads that allocated returned free memory %s before they went on, %s "
	       "together\n",
	       "reclaims", mt_text_counted(now->pressure_wait_count, "time", "times").text,
	       mt_text_ns(now->pressure_wait_ns).text);
	printf("  %-11s%.2f on %s CPUs; this process has used %s of CPU time\n", "load",
	       (double)now->load_thousandths / 1000,
	       now->cpus_count ? mt_text_count(now->cpus_count).text : "?",
	       mt_text_ns(now->cpu_ns).text);
	if (file->head.limit_reports_count)
		printf("  %-11sMT_RSS_LIMIT_MB was reached %s: `mtctl stat PID --oom` has the "
		       "reports\n",
		       "reports",
		       mt_text_counted(file->head.limit_reports_count, "time", "times").text);
}

/* ---- stat gpu ---- */

/* The GPU sections of `mtctl stat`: a table for each device with present values and peaks, by the
 * names of torch.cuda.memory_stats. */

#define AGE_MIN_MS 100u

/* Memory that the driver charges to the process and that the program has not allocated. NVML may be
 * missing, or not know the process (a container with its own pid namespace). */
static void print_process(const struct mt_stats_device *device)
{
	if (device->process_known != 1)
		puts("not ours: unknown; NVML does not say what the driver charges this process");
	else
		/* NVML's figures are kept for seconds, and may be older than the table above */
		printf("not ours: %s of the %s that the driver %s: context, kernels, libraries\n",
		       mt_text_bytes(device->unattributed_bytes).text,
		       mt_text_bytes(device->process_bytes).text,
		       device->nvml_age_ms < AGE_MIN_MS
			       ? "charges this process"
			       : mt_text_format("charged this process %.1f s before these figures",
						(double)device->nvml_age_ms / 1000)
					 .text);
	if (device->others_known == 1)
		printf("other processes on it: %s, with %s\n",
		       mt_text_count(device->others_count).text,
		       mt_text_bytes(device->others_bytes).text);
}

static void print_device(const struct mt_stats_device *device)
{
	printf("\n%sGPU %" PRIu64 "%s: %s%s%s%s, mode %s", mt_table_colour(MT_COLOUR_HEAD),
	       device->ordinal, mt_table_colour_end(), *device->name ? device->name : "?",
	       *device->pci ? " (" : "", device->pci, *device->pci ? ")" : "",
	       *device->mode ? device->mode : "?");
	if (device->total_bytes && device->free_bytes)
		printf(", %s free of %s", mt_text_bytes(device->free_bytes).text,
		       mt_text_bytes(device->total_bytes).text);
	else if (device->total_bytes)
		printf(", %s, free: unknown", mt_text_bytes(device->total_bytes).text);
	putchar('\n');
	mt_table_print(mt_device_table(device));
	print_process(device);
}

static void print_line(const char *name, const char *text)
{
	if (*text)
		printf("%-10s %s\n", name, text);
}

static void print_cuda(const struct mt_stats_head *head)
{
	char text[192];

	if (!mt_stats_file_uses_cuda(head))
		return;
	snprintf(text, sizeof(text), "%s, driver %s%s", *head->cuda ? head->cuda : "?",
		 mt_stats_word_driver(head).text,
		 head->snapshot.gpu_capturing ? ", a stream captures into a graph" : "");
	print_line("cuda", text);
}

static void print_changed_settings(const struct mt_stats_file *file)
{
	const char *separator = "settings   ";

	for (size_t i = 0; i < file->head.settings_count; i++) {
		const struct mt_stats_setting *setting = &file->settings[i];

		if (strcmp(setting->origin, "default") == 0)
			continue;
		printf("%s%s=%s (%s)", separator, setting->name, setting->value, setting->origin);
		separator = ", ";
	}
	puts(*separator == 's' ? "settings   all at their defaults" : "");
}

static void print_facts(const struct mt_stats_file *file)
{
	const struct mt_stats_head *head = &file->head;

	printf("\n%-10s %s, %s (mode %s), shim %s\n", "allocator", head->allocator, head->evidence,
	       mt_stats_word_mode(head->mode), head->shim_version);
	print_line("conf", head->conf);
	print_line("python", mt_stats_word_python(head->python));
	print_cuda(head);
	printf("%-10s %s\n", "signal",
	       mt_stats_word_disposition(head->snapshot.signal_disposition));
	print_changed_settings(file);
}

static void print_samples(const struct mt_stats_file *file)
{
	bool gpu = mt_stats_file_uses_cuda(&file->head);
	struct mt_memory_parts parts;
	struct mt_table *table = mt_table_new("<TIME|>RSS|>LIVE|>REUSABLE|>FILES|>OTHER");

	if (gpu)
		mt_table_add_columns(table, ">GPU RESERVED|>ALLOCATED");
	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample = mt_stats_file_sample(file, i);

		if (!sample->time_ns)
			continue;
		mt_table_add(table, mt_text_clock(sample->time_ns).text);
		mt_table_add_bytes(table, true, sample->rss_bytes);
		parts = mt_memory_parts_of_sample(sample);
		for (int part = 0; part < MT_PARTS_COUNT; part++)
			mt_table_add_bytes(table, true, parts.bytes[part]);
		if (gpu) {
			mt_table_add_bytes(table, true, sample->gpu_reserved_bytes);
			mt_table_add_bytes(table, true, sample->gpu_allocated_bytes);
		}
	}
	putchar('\n');
	mt_table_print(table);
}

/* ---- the last cleanups ---- */

#define CLEANUPS_SHOWN 5u

static void print_cleanups(const struct mt_stats_file *file, bool all)
{
	struct mt_cleanup_entry *entries =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*entries)));
	size_t count = mt_cleanup_history(file, entries),
	       shown = all || count < CLEANUPS_SHOWN ? count : CLEANUPS_SHOWN;

	if (count) {
		putchar('\n');
		mt_table_print(mt_cleanup_table(&file->head, entries + count - shown, shown));
	} else {
		puts("\nno cleanup yet");
	}
	if (all && mt_cleanup_kept_since_ns(file))
		printf("%" PRIu64 " older ones are not kept\n",
		       file->head.cleanups_count - MT_CLEANUPS_COUNT);
	free(entries);
}

void mt_stat_print_text(const struct mt_target *target, const struct mt_stat_view *view)
{
	stat_print_summary(target, view);
	if (view->all) {
		print_facts(&target->file);
		putchar('\n');
		mt_table_print(mt_process_table(&target->file.head));
		stat_print_pressure(&target->file);
		/* Prints a section for each device; nothing if there is none. */
		for (size_t i = 0; i < target->file.head.devices_count && i < MT_DEVICES_COUNT; i++)
			print_device(&target->file.devices[i]);
	}
	if (view->all || view->records)
		print_cleanups(&target->file, view->records);
	if (view->samples)
		print_samples(&target->file);
}

/* ---- stat --oom: devices out of memory, and MT_RSS_LIMIT_MB ---- */

/* A figure that is known only while it is not 0 is left out with it, and device memory of a
 * program that has none. */
static void print_figures(enum mt_figure_list list, const void *report)
{
	struct mt_table *table = mt_table_new("<  WHAT|>VALUE|<MEANING");

	for (const struct mt_figure *figure = mt_figures(list); figure->name; figure++) {
		bool is_known = mt_figure_is_known(figure, report);

		if (!*figure->label || (!is_known && figure->known_offset == figure->offset) ||
		    !mt_figure_applies(figure, mt_figure_value(figure, report) != 0))
			continue;
		mt_table_addf(table, "  %s", figure->label);
		mt_table_add_row(table, is_known ? mt_figure_text(figure, report).text : "?",
				 figure->help, NULL);
	}
	mt_table_print(table);
}

static void print_report(const struct mt_stats_oom *oom)
{
	enum mt_oom_cause cause = mt_stats_oom_cause(oom);

	printf("%sout of memory %" PRIu64 "%s, %s: %s asked for %s on GPU %" PRIu64 "\n",
	       mt_table_colour(MT_COLOUR_HEAD), oom->number, mt_table_colour_end(),
	       mt_text_clock(oom->time_ns).text, oom->function,
	       mt_text_bytes(oom->asked_bytes).text, oom->device);
	print_figures(MT_FIGURES_OOM, oom);
	printf("  flushes and second tries (num_alloc_retries) %s, errors on this device "
	       "(num_ooms) %s\n",
	       mt_text_count(oom->num_alloc_retries).text, mt_text_count(oom->num_ooms).text);
	printf("  likely cause: %s\n  -> %s\n", mt_stats_word_oom_cause(cause),
	       mt_stats_word_oom_advice(cause));
}

static void print_limit_report(const struct mt_stats_limit_report *limit_report)
{
	printf("%slimit report %" PRIu64
	       "%s, %s: MT_RSS_LIMIT_MB, %s, was reached with %s; who held what after a heavy "
	       "cleanup:\n",
	       mt_table_colour(MT_COLOUR_HEAD), limit_report->number, mt_table_colour_end(),
	       mt_text_clock(limit_report->time_ns).text,
	       mt_text_bytes(limit_report->limit_bytes).text,
	       mt_text_counted(limit_report->threads_count, "thread", "threads").text);
	print_figures(MT_FIGURES_LIMIT_REPORT, limit_report);
	if (*limit_report->advice)
		printf("  -> %s\n", limit_report->advice);
}

/* Prints a blank line between two reports. */
static void separate(uint64_t *shown)
{
	if ((*shown)++)
		putchar('\n');
}

void mt_stat_print_oom_text(const struct mt_target *target)
{
	const struct mt_stats_file *file = &target->file;
	uint64_t ooms = file->head.ooms_count, limit_reports = file->head.limit_reports_count,
		 shown = 0;
	bool uses_cuda = mt_stats_file_uses_cuda(&file->head);

	for (uint64_t back = MT_OOMS_COUNT; back-- > 0;) {
		const struct mt_stats_oom *oom = mt_stats_file_oom(file, ooms - back);

		if (back >= ooms || !oom)
			continue;
		separate(&shown);
		print_report(oom);
	}
	for (uint64_t back = MT_LIMIT_REPORTS_COUNT; back-- > 0;) {
		const struct mt_stats_limit_report *limit_report =
			mt_stats_file_limit_report(file, limit_reports - back);

		if (back >= limit_reports || !limit_report)
			continue;
		separate(&shown);
		print_limit_report(limit_report);
	}
	if (shown)
		return;
	if (limit_reports)
		printf("MT_RSS_LIMIT_MB was reached (%s), but the reports are not there\n",
		       mt_text_counted(limit_reports, "time", "times").text);
	else if (file->head.snapshot.gpu_num_ooms)
		printf("out-of-memory errors have reached this program (%s), but their reports are "
		       "not there\n",
		       mt_text_count(file->head.snapshot.gpu_num_ooms).text);
	else
		printf("no out-of-memory error has reached this program%s%s%s\n",
		       uses_cuda ? ", by its figures of " : "",
		       uses_cuda ? mt_text_clock(file->head.time_ns).text : "",
		       uses_cuda ? "; one counts after 5 s, unless the program overcomes it" : "");
}
