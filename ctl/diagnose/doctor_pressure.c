/* ctl/diagnose/doctor_pressure.c -- limits, thresholds, and other sources of pressure. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/diagnose/doctor.h"
#include "ctl/process/process_limit.h"
#include "ctl/output/text.h"

#define NEAR_PERCENT 85.0 /* ---- the limit ---- */

static void print_limit(struct mt_limit *memory, double near_percent)
{
	double percent = mt_limit_percent(memory);
	bool near = percent >= near_percent;

	mt_text_clean(memory->source, sizeof(memory->source));
	mt_check_print(near ? MT_CHECK_WARN : MT_CHECK_OK,
		       !near            ? NULL
		       : geteuid() == 0 ? "mtctl trim --all-users, or a larger limit"
					: "mtctl trim --all, or a larger limit",
		       "memory: %s of %s used, %.1f %% (%s)",
		       mt_text_bytes(memory->used_bytes).text,
		       mt_text_bytes(memory->limit_bytes).text, percent, memory->source);
}

static void print_no_cgroup(const char *directory)
{
	mt_check_print(MT_CHECK_WARN,
		       "name the directory of a memory cgroup, with memory.current or "
		       "memory.usage_in_bytes in it",
		       "MT_CGROUP: %s is none; the process's own cgroup is taken", directory);
}

static void print_given(const struct mt_process *process, const struct mt_stats_file *file)
{
	char directory[PATH_MAX];
	struct mt_limit memory;
	enum mt_err error;

	mt_process_limit_given(process, file, directory, sizeof(directory));
	if (!*directory)
		return;
	error = mt_limit_find_given(process, directory, &memory);
	mt_text_clean(directory, sizeof(directory));
	if (error)
		print_no_cgroup(directory);
	else
		mt_check_print(MT_CHECK_OK, NULL,
			       "MT_CGROUP: %s and the groups above it are gone by", directory);
}

static void print_thresholds(const struct mt_stats_file *file)
{
	uint64_t warn = mt_stats_file_number(file, "warn_pct"),
		 critical = mt_stats_file_number(file, "crit_pct");

	if (!warn || !critical)
		return;
	mt_check_print(
		warn > critical ? MT_CHECK_WARN : MT_CHECK_OK,
		warn > critical ? "MT_WARN_PCT below MT_CRIT_PCT, so that a purge is tried before "
				  "a heavy cleanup"
				: NULL,
		"pressure: warn at %u %%, critical at %u %% of the limit, over again %s lower",
		(unsigned)warn, (unsigned)critical,
		mt_text_counted(mt_stats_file_number(file, "clear_pct"), "point", "points").text);
}

static void print_rss_limit(const struct mt_stats_file *file)
{
	const struct mt_stats_snapshot *now = &file->head.snapshot;
	uint64_t limit = mt_stats_file_number(file, "rss_limit_mb") << 20,
		 warn = mt_stats_file_number(file, "warn_pct"), used;
	double percent;

	if (now->limit_reports_count)
		mt_check_print(MT_CHECK_WARN, "mtctl stat PID --oom has the reports",
			       "MT_RSS_LIMIT_MB was reached %s",
			       mt_text_counted(now->limit_reports_count, "time", "times").text);
	if (!limit)
		return;
	used = now->rss_bytes + now->swap_bytes;
	percent = mt_stats_percent(used, limit);
	mt_check_print(percent >= (warn ? (double)warn : NEAR_PERCENT) ? MT_CHECK_WARN
								       : MT_CHECK_OK,
		       percent >= (warn ? (double)warn : NEAR_PERCENT)
			       ? "mtctl diagnose PID says what grows"
			       : NULL,
		       "MT_RSS_LIMIT_MB: %s of %s, %.1f %%", mt_text_bytes(used).text,
		       mt_text_bytes(limit).text, percent);
}

/* The limit of a program that is started from here. */
static enum mt_err find_from_here(struct mt_limit *out)
{
	const char *given = getenv("MT_CGROUP");
	char text[160];

	if (!given || !*given)
		return mt_limit_find("", 0, out);
	if (mt_limit_find_in("", given, out) == MT_ERR_OK)
		return MT_ERR_OK;
	snprintf(text, sizeof(text), "%s", given);
	mt_text_clean(text, sizeof(text));
	print_no_cgroup(text);
	return mt_limit_find("", 0, out);
}

void mt_doctor_check_limit(const struct mt_process *process, const struct mt_stats_file *file)
{
	double near_percent = NEAR_PERCENT;
	struct mt_limit memory;
	enum mt_err error =
		process ? mt_process_limit_find(process, file, &memory) : find_from_here(&memory);

	if (file && mt_stats_file_number(file, "warn_pct"))
		near_percent = (double)mt_stats_file_number(file, "warn_pct");
	if (error)
		mt_check_print(MT_CHECK_WARN, "mount /proc",
			       "memory limit: neither cgroup nor /proc/meminfo");
	else
		print_limit(&memory, near_percent);
	if (!file)
		return;
	print_given(process, file);
	if (mt_stats_file_is_off(file, "pressure"))
		mt_check_print(MT_CHECK_NOTE, "mtctl set PID pressure=1 switches it on",
			       "pressure: not looked at (MT_PRESSURE=0), nothing is cleaned up "
			       "when a limit comes near");
	else
		print_thresholds(file);
	print_rss_limit(file);
}

/* Source: systemd's MEMORY_PRESSURE.md: a path to watch, /dev/null for "do not". */
static void check_watch(pid_t pid)
{
	char path[PATH_MAX], reached[PATH_MAX + 64];
	struct stat seen;

	if (!mt_doctor_variable(pid, "MEMORY_PRESSURE_WATCH", path, sizeof(path)) || !*path)
		return;
	snprintf(reached, sizeof(reached), "/proc/%d/root%s", (int)(pid ? pid : getpid()), path);
	mt_text_clean(path, sizeof(path));
	if (strcmp(path, "/dev/null") == 0)
		mt_check_print(
			MT_CHECK_NOTE, NULL,
			"MEMORY_PRESSURE_WATCH=/dev/null: whoever started it wants none watched");
	else if (*path != '/' || access(reached, R_OK) != 0)
		mt_check_print(MT_CHECK_WARN, "see MemoryPressureWatch= of the service",
			       "MEMORY_PRESSURE_WATCH: %s cannot be read (%s)", path,
			       *path == '/' ? strerror(errno) : "no full path");
	else if (stat(reached, &seen) != 0 || !S_ISREG(seen.st_mode))
		mt_check_print(
			MT_CHECK_NOTE, NULL,
			"MEMORY_PRESSURE_WATCH: %s is no file of pressure stall, and not read",
			path);
	else
		mt_check_print(MT_CHECK_OK, NULL, "MEMORY_PRESSURE_WATCH: %s is watched", path);
}

void mt_doctor_check_stalls(pid_t pid)
{
	char path[PATH_MAX], directory[PATH_MAX - 32];
	uint64_t swap = mt_limit_meminfo("", "SwapTotal"),
		 swap_free = mt_limit_meminfo("", "SwapFree");

	if (access("/proc/pressure/memory", R_OK) != 0)
		mt_check_print(
			MT_CHECK_NOTE,
			"psi=1 on the kernel's command line, where it was built with CONFIG_PSI",
			"pressure stall information: not available (%s)", strerror(errno));
	else
		mt_check_print(MT_CHECK_OK, NULL, "pressure stall information: available%s",
			       swap ? "" : ", of little use without swap");
	if (mt_limit_cgroup_directory("", pid, directory, sizeof(directory))) {
		snprintf(path, sizeof(path), "%s/memory.pressure", directory);
		if (access(path, R_OK) == 0)
			mt_check_print(MT_CHECK_OK, NULL, "pressure of the cgroup: available");
	}
	if (swap)
		mt_check_print(MT_CHECK_OK, NULL, "swap: %s, %s of it free",
			       mt_text_bytes(swap).text, mt_text_bytes(swap_free).text);
	else
		mt_check_print(MT_CHECK_OK, NULL,
			       "swap: none; at the limit the kernel can only drop file pages, and "
			       "then kill");
	check_watch(pid);
}
