/* ctl/diagnose/rules_setup.c -- how a process is set up: the shim in it, its limits and settings,
 * and the memory that the shim cannot reach. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/diagnose/diagnose.h"
#include "ctl/process/preload.h"

#define NEAR_PERCENT 85.0          /* of a limit */
#define WORTH_BYTES  (64 * MT_MIB) /* live and not resident: less is nothing odd */
#define OVER_BUDGET  3             /* times the share of time that cleaning may take */
#define AWAKE_MIN_S  20

static void add_fact(struct mt_diagnosis *out, const char *label, const char *text)
{
	if (*text)
		mt_finding_note(out, MT_FACT, label, NULL, "%s", text);
}

/* ---- the shim in it ---- */

void mt_rule_silent(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (facts->old_ns)
		mt_finding_note(out, MT_WARN, "silent", NULL, "%s: its figures are %s old",
				mt_facts_silence(facts), mt_text_span(facts->old_ns).text);
}

void mt_rule_old_library(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (facts->process.library_deleted)
		mt_finding_note(out, MT_NOTE, "library",
				"restart the program to get the present one",
				"runs an older library, deleted from disk: replaced by another "
				"one, or removed");
}

static bool is_preloaded_first(const struct mt_process *process)
{
	char list[PATH_MAX], *rest = list, *entry;

	if (!mt_process_environ(process->pid, "LD_PRELOAD", list, sizeof(list)))
		return false;
	do
		entry = strsep(&rest, " :");
	while (entry && !*entry);
	return entry && mt_preload_is_shim(entry);
}

void mt_rule_allocator(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_head *head = &facts->last.head;
	bool is_unknown = strcmp(head->allocator, "unknown") == 0,
	     is_shadowed = head->mode == MT_MODE_SHADOWED, is_kept = head->mode == MT_MODE_LIBC;

	if (head->mode == MT_MODE_UNKNOWN) /* a recording does not say */
		return;
	mt_finding_note(
		out,
		is_unknown || is_shadowed ? MT_WARN
		: is_kept                 ? MT_NOTE
					  : MT_OK,
		"allocator",
		is_shadowed && is_preloaded_first(&facts->process)
			? NULL /* the program's own malloc */
		: is_shadowed ? "something else serves malloc: put libmtshim.so first in LD_PRELOAD"
		: is_unknown  ? "its heap is not counted; MT_ALLOCATOR=jemalloc replaces it"
			      : NULL,
		"allocator: %s, mode %s%s%s", head->allocator, mt_stats_word_mode(head->mode),
		is_kept ? ", " : "", is_kept ? head->evidence : "");
	if (!is_kept)
		add_fact(out, "evidence", head->evidence);
	add_fact(out, "conf", head->conf);
	add_fact(out, "python", mt_stats_word_python(head->python));
}

void mt_rule_version(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_head *head = &facts->last.head;

	if (head->mode == MT_MODE_SYSTEM && strcmp(head->allocator, "glibc") != 0 &&
	    strcmp(head->allocator, "unknown") != 0)
		mt_finding_note(
			out, MT_NOTE, "embedded", NULL,
			"MT_ALLOCATOR=jemalloc would serve malloc from the embedded jemalloc");
	if (strcmp(head->shim_version, MT_VERSION) != 0)
		mt_finding_note(out, MT_NOTE, "version", "restart the program to get the new one",
				"the shim in it is version %s, this mtctl is %s",
				head->shim_version, MT_VERSION);
}

void mt_rule_signal(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	static const char other[] = "use `mtctl trim`, or another MT_SIGNAL";
	static const struct {
		int state;
		const char *text;
	} rows[] = {
		{MT_OK, "none is wanted; `mtctl trim` needs none"},
		{MT_OK, "the handler of the shim is installed"},
		{MT_OK, ""},
		{MT_WARN, "SIG_DFL came back by a raw system call, or after a one-shot handler; "
			  "the signal would end the program"},
		{MT_NOTE, "the program ignores it, so it does nothing"},
		{MT_OK, "the program has its own handler, and the signal is the program's alone; "
			"`mtctl trim` cleans up"},
	};
	uint64_t at = mt_facts_now(facts)->signal_disposition;

	at = at < sizeof(rows) / sizeof(rows[0]) ? at : 4;
	mt_finding_note(out, rows[at].state, "signal", rows[at].state == MT_OK ? NULL : other,
			"signal: %s", rows[at].text);
}

void mt_rule_late_collections(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t count = mt_facts_now(facts)->gc_late_count;

	if (count)
		mt_finding_note(out, MT_NOTE, "late-collections", NULL,
				"%s: the main thread was in C code or in a system call",
				mt_text_counted(count, "late collection", "late collections").text);
}

/* What the newest cleanup that asked for a collection says. */
void mt_rule_gc_waits(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	struct mt_cleanup_entry *entries =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*entries)));
	size_t count = mt_cleanup_history(&facts->last, entries);

	while (count && entries[count - 1].cleanup->gc_state == MT_GC_NONE)
		count--;
	if (count && !entries[count - 1].late) {
		const struct mt_stats_cleanup *cleanup = entries[count - 1].cleanup;

		if (cleanup->gc_state == MT_GC_BLOCKED || cleanup->gc_state == MT_GC_LATE)
			mt_finding_note(
				out, MT_NOTE, "gc", NULL,
				"Python's gc waits since %.8s: the main thread %s; it runs as soon "
				"as that returns",
				mt_text_clock(cleanup->time_ns).text,
				cleanup->gc_state == MT_GC_BLOCKED ? "is in a system call"
								   : "runs C code");
		else if (cleanup->gc_state == MT_GC_DISABLED)
			mt_finding_note(out, MT_NOTE, "gc", NULL,
					"Python's gc is disabled by the program");
	}
	free(entries);
}

void mt_rule_rewritten_library(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_head *head = &facts->last.head;

	if (mt_library_is_rewritten(&facts->process,
				    head->time_ns - head->snapshot.uptime_ms * 1000000u))
		mt_finding_note(out, MT_WARN, "rewritten",
				"restart the program; replace a library by rename (make install, "
				"dpkg, mv), never by cp over it",
				"its " MT_SHIM_NAME " was written in place while it runs: its code "
				"may be that of two versions");
}

void mt_rule_refilled_pages(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t count = facts->last.head.cleanups_by_reason[MT_REASON_HUGE_PAGES];

	if (count)
		mt_finding_note(out, MT_WARN, "refilled",
				"MT_MALLOC_CONF=thp:never, NUMPY_MADVISE_HUGEPAGE=0",
				"huge pages: the kernel has filled what was purged, %s",
				mt_text_counted(count, "time", "times").text);
}

/* The budget holds the worker's purges; requests, rounds and pressure clean up beyond it. */
void mt_rule_over_budget(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	double seconds = mt_diagnose_awake_s(facts),
	       spent_s = ((double)now->purge_cost_ns + (double)now->refault_cost_ns) / 1e9,
	       budget = (double)now->budget_ratio_thousandths / 1000;

	if (budget <= 0 || seconds < AWAKE_MIN_S || spent_s < seconds * budget * OVER_BUDGET)
		return;
	mt_finding_note(out, MT_WARN, "cost",
			now->rounds_count ? "fewer cleanups: a larger MT_GC_ROUNDS"
					  : "mtctl stat PID --records says what asks for them",
			"cleaning took %.1f %% of the time, where the budget is %.0f %%: requests, "
			"rounds and pressure clean up beyond it",
			100 * spent_s / seconds, 100 * budget);
}

void mt_rule_state(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (facts->asleep)
		mt_finding_note(out, MT_NOTE, "asleep", NULL, "%s", facts->why_not);
	else if (!facts->awake)
		mt_finding_note(out, MT_WARN, "refused",
				facts->is_file_refused || strstr(facts->why_not, "out of reach")
					? NULL
					: "MT_DIR must be a directory on a tmpfs, and its "
					  "owner's alone (mode 700)",
				"%s", facts->why_not);
}

/* Settings that are not at their defaults: `mtctl options` has those. */
void mt_rule_settings(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_file *file = &facts->last;
	char text[160];
	size_t shown = 0;

	for (size_t i = 0; i < file->head.settings_count; i++) {
		const struct mt_stats_setting *setting = &file->settings[i];

		if (strcmp(setting->origin, "default") == 0)
			continue;
		snprintf(text, sizeof(text), "%-18s = %-14s (%s)", setting->name, setting->value,
			 setting->origin);
		add_fact(out, shown++ ? "" : "settings", text);
	}
	if (!shown && file->head.settings_count)
		add_fact(out, "settings", "all at their defaults");
}

/* ---- what it cannot reach ---- */

void mt_rule_locked(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (facts->locked_bytes >= MT_MIB)
		mt_finding_note(out, MT_WARN, "locked",
				"mlock(2) keeps freed pages resident: a purge cannot return them",
				"%s are locked", mt_text_bytes(facts->locked_bytes).text);
}

void mt_rule_swap(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t bytes = mt_facts_last(facts)->swap_bytes;

	if (bytes >= MT_MIB)
		mt_finding_note(out, MT_NOTE, "swap", NULL,
				"%s of it are swapped out and count as well",
				mt_text_bytes(bytes).text);
}

void mt_rule_mappings(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t shmem = mt_facts_last(facts)->shmem_bytes;

	if (facts->thp_enabled)
		mt_finding_note(out, MT_OK, "huge-pages", NULL,
				"transparent huge pages: %s in this process",
				facts->thp_enabled == '0' ? "off" : "allowed");
	if (shmem >= MT_MIB)
		mt_finding_note(out, MT_NOTE, "shared-memory", NULL,
				"out of reach: %s of its RSS is shared memory",
				mt_text_bytes(shmem).text);
	for (size_t i = 0; i < facts->foreign_count; i++) {
		const struct mt_diagnose_foreign *foreign = &facts->foreign[i];

		if (foreign->explanation)
			mt_finding_note(out, MT_NOTE, "foreign", foreign->way_back,
					"out of reach: %s (%s)", foreign->explanation,
					foreign->path);
		else
			mt_finding_note(out, MT_NOTE, "foreign",
					"out of reach unless it is the allocator named above",
					"%s is loaded: %s", foreign->name, foreign->path);
	}
	if (facts->shm_mapped_bytes >= MT_MIB)
		mt_finding_note(out, MT_NOTE, "shm-mappings", NULL,
				"out of reach: %s (/dev/shm, memfd, SysV, anonymous MAP_SHARED), "
				"%s of address space",
				mt_text_counted(facts->shm_mapped_count, "shared memory mapping",
						"shared memory mappings")
					.text,
				mt_text_bytes(facts->shm_mapped_bytes).text);
}

/* ---- limits ---- */

static void add_no_cgroup(struct mt_diagnosis *out, const char *directory)
{
	mt_finding_note(out, MT_WARN, "cgroup",
			"name the directory of a memory cgroup, with memory.current or "
			"memory.usage_in_bytes in it",
			"MT_CGROUP: %s is none; the process's own cgroup is taken", directory);
}

/* Without a process: of a program that is started from here. */
void mt_rule_memory_limit(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t set = facts->awake ? mt_stats_file_number(&facts->last, "warn_pct") : 0;
	double percent = facts->limit_known ? mt_limit_percent(&facts->limit) : 0;
	bool near = percent >= (set ? (double)set : NEAR_PERCENT);
	const char *given = facts->process.pid ? NULL : mt_facts_variable(facts, "MT_CGROUP");
	struct mt_limit limit;

	if (given && *given && mt_limit_find_in("", given, &limit) != MT_ERR_OK)
		add_no_cgroup(out, given);
	if (!facts->limit_known)
		mt_finding_note(out, MT_WARN, "memory", "mount /proc",
				"memory limit: neither cgroup nor /proc/meminfo");
	else
		mt_finding_note(out, near ? MT_WARN : MT_OK, "memory",
				!near            ? NULL
				: geteuid() == 0 ? "mtctl trim --all-users, or a larger limit"
						 : "mtctl trim --all, or a larger limit",
				"memory: %s of %s used, %.1f %% (%s)",
				mt_text_bytes(facts->limit.used_bytes).text,
				mt_text_bytes(facts->limit.limit_bytes).text, percent,
				facts->limit.source);
}

void mt_rule_given_cgroup(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	char directory[PATH_MAX];
	struct mt_limit limit;
	enum mt_err error;

	mt_process_limit_given(&facts->process, &facts->last, directory, sizeof(directory));
	if (!*directory)
		return;
	error = mt_limit_find_given(&facts->process, directory, 0, &limit);
	mt_text_clean(directory, sizeof(directory));
	if (error)
		add_no_cgroup(out, directory);
	else
		mt_finding_note(out, MT_OK, "cgroup", NULL,
				"MT_CGROUP: %s and the groups above it are gone by", directory);
}

void mt_rule_thresholds(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_file *file = &facts->last;
	uint64_t warn = mt_stats_file_number(file, "warn_pct"),
		 critical = mt_stats_file_number(file, "crit_pct");

	if (mt_stats_file_is_off(file, "pressure"))
		mt_finding_note(out, MT_NOTE, "pressure", "mtctl set PID pressure=1 switches it on",
				"pressure: not looked at (MT_PRESSURE=0), nothing is cleaned up "
				"when a limit comes near");
	else if (warn && critical)
		mt_finding_note(
			out, warn > critical ? MT_WARN : MT_OK, "pressure",
			"MT_WARN_PCT below MT_CRIT_PCT, so that a purge is tried "
			"before a heavy cleanup",
			"pressure: warn at %u %%, critical at %u %% of the limit, over again %s "
			"lower",
			(unsigned)warn, (unsigned)critical,
			mt_text_counted(mt_stats_file_number(file, "clear_pct"), "point", "points")
				.text);
}

void mt_rule_pressure(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);

	if (now->pressure_level)
		mt_finding_note(out, MT_WARN, "pressure", NULL, "memory pressure: %s",
				mt_stats_word_pressure_level(now->pressure_level));
	if (now->memory_max_count)
		mt_finding_note(out, MT_NOTE, "limit-reached", NULL,
				"the container has run into its limit %s",
				mt_text_counted(now->memory_max_count, "time", "times").text);
}

void mt_rule_rss_limit(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	const struct mt_stats_head *head = &facts->last.head;
	uint64_t limit = mt_stats_file_number(&facts->last, "rss_limit_mb") << 20,
		 warn = mt_stats_file_number(&facts->last, "warn_pct"),
		 reports = mt_max_u64(now->limit_reports_count, head->limit_reports_count);
	double percent = mt_stats_percent(now->rss_bytes + now->swap_bytes, limit);
	bool near = percent >= (warn ? (double)warn : NEAR_PERCENT);

	if (reports)
		mt_finding_note(out, MT_WARN, "rss-limit-reached",
				"`mtctl stat PID --oom` has the reports",
				"MT_RSS_LIMIT_MB was reached %s",
				mt_text_counted(reports, "time", "times").text);
	if (limit)
		mt_finding_note(out, near ? MT_WARN : MT_OK, "rss-limit",
				"mtctl diagnose PID says what grows",
				"MT_RSS_LIMIT_MB: %s of %s, %.1f %%",
				mt_text_bytes(now->rss_bytes + now->swap_bytes).text,
				mt_text_bytes(limit).text, percent);
}
