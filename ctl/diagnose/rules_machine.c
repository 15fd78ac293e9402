/* ctl/diagnose/rules_machine.c -- the machine, and what the environment does to a program that is
 * started from here. These rules look at files of the machine. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ctl/channel/stats_dir.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/figures/setting.h"
#include "ctl/process/preload.h"
#include "ctl/process/read_file.h"

#define THP_FILE "/sys/kernel/mm/transparent_hugepage/enabled"
/* a stats file has some 80 kB for each process */
#define SHM_NEEDED ((uint64_t)1 << 20)
#define SEPARATORS " :"
/* unknown names that are listed: a process may have a million of them */
#define NAMES_MAX 20u

/* ---- the machine ---- */

static void check_thp(struct mt_diagnosis *out)
{
	char *text = mt_read_file(THP_FILE, NULL), *chosen = text ? strchr(text, '[') : NULL;
	bool is_always = chosen && strncmp(chosen, "[always]", 8) == 0;

	if (!chosen)
		mt_finding_note(out, MT_NOTE, "thp", NULL,
				"transparent huge pages: not in this kernel");
	else
		mt_finding_note(out, is_always ? MT_NOTE : MT_OK, "thp",
				is_always ? "MT_MALLOC_CONF=thp:never for large blocks too, or "
					    "echo madvise > " THP_FILE
					  : NULL,
				"transparent huge pages: %.*s%s", (int)strcspn(chosen + 1, "]"),
				chosen + 1, is_always ? "; blocks below 4 MB get none" : "");
	free(text);
}

static void check_shm(struct mt_diagnosis *out)
{
	struct statvfs status;
	uint64_t free_bytes;
	bool is_full;

	if (statvfs("/dev/shm", &status) != 0) {
		mt_finding_note(out, MT_WARN, "shm", "mount a tmpfs on /dev/shm, or set MT_DIR",
				"/dev/shm: %s", strerror(errno));
		return;
	}
	free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
	is_full = free_bytes < SHM_NEEDED;
	mt_finding_note(out, is_full ? MT_WARN : MT_OK, "shm",
			"make room, or set MT_DIR; until then there are no stats files",
			"/dev/shm: %s free", mt_text_bytes(free_bytes).text);
}

static void check_directory(struct mt_diagnosis *out)
{
	static const char own[] = "set MT_DIR to a directory of your own";
	char path[PATH_MAX];
	struct stat status;
	bool is_in_memory;

	mt_stats_dir_path(path, sizeof(path));
	is_in_memory = mt_stats_dir_is_in_memory(path);
	mt_text_clean(path, sizeof(path));
	if (!is_in_memory)
		mt_finding_note(
			out, MT_WARN, "directory",
			"set MT_DIR to a directory on a tmpfs; until then there are no stats files",
			"%s: not on a file system in memory", path);
	else if (lstat(path, &status) != 0 && errno == ENOENT)
		mt_finding_note(out, MT_OK, "directory", NULL,
				"%s: not there yet; the first process that wakes up makes it",
				path);
	else if (lstat(path, &status) != 0)
		mt_finding_note(out, MT_WARN, "directory", own, "%s: %s", path, strerror(errno));
	else if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid())
		mt_finding_note(out, MT_WARN, "directory",
				"remove it, or set MT_DIR to a directory of your own",
				"%s: %s of user %u; it is refused", path,
				S_ISDIR(status.st_mode) ? "a directory" : "no directory",
				(unsigned)status.st_uid);
	else if (status.st_mode & 077)
		mt_finding_note(out, MT_WARN, "directory",
				"chmod 700 it: others may read it, or write to it", "%s: mode %03o",
				path, (unsigned)(status.st_mode & 0777));
	else
		mt_finding_note(out, MT_OK, "directory", NULL, "%s: yours, mode %03o", path,
				(unsigned)(status.st_mode & 0777));
}

void mt_rule_machine(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	(void)facts;
	check_thp(out);
	check_shm(out);
	check_directory(out);
}

/* Source: systemd's MEMORY_PRESSURE.md: a path to watch, /dev/null for "do not". */
static void check_watch(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const char *path = mt_facts_variable(facts, "MEMORY_PRESSURE_WATCH");
	pid_t pid = facts->process.pid;
	char reached[PATH_MAX + 64];
	struct stat seen;

	if (!path || !*path)
		return;
	snprintf(reached, sizeof(reached), "/proc/%d/root%s", (int)(pid ? pid : getpid()), path);
	if (strcmp(path, "/dev/null") == 0)
		mt_finding_note(
			out, MT_NOTE, "watch", NULL,
			"MEMORY_PRESSURE_WATCH=/dev/null: whoever started it wants none watched");
	else if (*path != '/' || access(reached, R_OK) != 0)
		mt_finding_note(out, MT_WARN, "watch", "see MemoryPressureWatch= of the service",
				"MEMORY_PRESSURE_WATCH: %s cannot be read (%s)", path,
				*path == '/' ? strerror(errno) : "no full path");
	else if (stat(reached, &seen) != 0 || !S_ISREG(seen.st_mode))
		mt_finding_note(
			out, MT_NOTE, "watch", NULL,
			"MEMORY_PRESSURE_WATCH: %s is no file of pressure stall, and not read",
			path);
	else
		mt_finding_note(out, MT_OK, "watch", NULL, "MEMORY_PRESSURE_WATCH: %s is watched",
				path);
}

void mt_rule_stalls(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	char path[PATH_MAX], directory[PATH_MAX - 32];
	uint64_t swap = mt_limit_meminfo("", "SwapTotal:"),
		 swap_free = mt_limit_meminfo("", "SwapFree:");

	if (access("/proc/pressure/memory", R_OK) != 0)
		mt_finding_note(
			out, MT_NOTE, "psi",
			"psi=1 on the kernel's command line, where it was built with CONFIG_PSI",
			"pressure stall information: not available (%s)", strerror(errno));
	else
		mt_finding_note(out, MT_OK, "psi", NULL, "pressure stall information: available%s",
				swap ? "" : ", of little use without swap");
	if (mt_limit_cgroup_directory("", facts->process.pid, directory, sizeof(directory))) {
		snprintf(path, sizeof(path), "%s/memory.pressure", directory);
		if (access(path, R_OK) == 0)
			mt_finding_note(out, MT_OK, "psi", NULL,
					"pressure of the cgroup: available");
	}
	if (swap)
		mt_finding_note(out, MT_OK, "swap", NULL, "swap: %s, %s of it free",
				mt_text_bytes(swap).text, mt_text_bytes(swap_free).text);
	else
		mt_finding_note(out, MT_OK, "swap", NULL,
				"swap: none; at the limit the kernel can only drop file pages, "
				"and then kill");
	check_watch(facts, out);
}

/* ---- the environment ---- */

static void check_entry(const char *entry, size_t place, bool is_before_shim,
			struct mt_diagnosis *out)
{
	const char *allocator = mt_preload_allocator(entry);

	if (mt_preload_is_shim(entry) && place > 0)
		mt_finding_note(out, MT_WARN, "preload",
				"put it first: what stands before it serves malloc instead",
				"LD_PRELOAD: %s is entry %zu", entry, place + 1);
	else if (allocator && is_before_shim)
		mt_finding_note(out, MT_NOTE, "preload", "put libmtshim.so first",
				"LD_PRELOAD: %s (%s) stands before the shim: it serves malloc",
				entry, allocator);
	else if (allocator)
		mt_finding_note(out, MT_NOTE, "preload",
				"MT_ALLOCATOR=jemalloc uses the embedded one instead",
				"LD_PRELOAD: %s (%s) stands in line: with MT_ALLOCATOR=auto the "
				"shim leaves malloc to it and purges it",
				entry, allocator);
}

/* The loader has read the same list for mtctl itself. */
static void check_preload(struct mt_diagnosis *out)
{
	const char *value = getenv("LD_PRELOAD");
	char *copy = mt_error_check_memory(strdup(value ? value : "")), *saved = NULL;
	size_t place = 0, shims = 0;
	struct mt_process own;
	struct mt_error_reason why;

	for (char *entry = strtok_r(copy, SEPARATORS, &saved); entry;
	     entry = strtok_r(NULL, SEPARATORS, &saved)) {
		bool has_shim = saved && strstr(saved, MT_SHIM_NAME);

		mt_text_clean(entry, strlen(entry) + 1);
		if (strchr(entry, '/') && !strchr(entry, '$') && access(entry, R_OK) != 0) {
			mt_finding_note(out, MT_WARN, "preload", "correct LD_PRELOAD",
					"LD_PRELOAD: %s cannot be read", entry);
			continue;
		}
		check_entry(entry, place++, has_shim && !shims, out);
		shims += mt_preload_is_shim(entry);
	}
	free(copy);
	if (shims > 1)
		mt_finding_note(out, MT_WARN, "preload", "leave one",
				"LD_PRELOAD: the shim stands in it %zu times", shims);
	else if (mt_process_find(getpid(), &own, &why) == MT_ERR_OK && own.shimmed)
		mt_finding_note(out, MT_OK, "preload", NULL,
				"LD_PRELOAD: the shim is in it, programs from here carry it");
	else
		mt_finding_note(
			out, MT_NOTE, "preload", "mtctl run -- program...",
			"LD_PRELOAD: the shim is not in it, programs from here do not carry it");
}

/* Settings of jemalloc that the shim does not pass on. */
static void check_conf(struct mt_diagnosis *out)
{
	static const char *const keys[] = {"dirty_decay_ms", "muzzy_decay_ms", "background_thread"};
	const char *conf = getenv("MALLOC_CONF");

	for (size_t i = 0; conf && i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strstr(conf, keys[i]))
			mt_finding_note(
				out, MT_NOTE, "conf",
				"MT_MALLOC_CONF is taken by the word, should it really be wanted",
				"MALLOC_CONF: %s is ignored: the shim purges by policy, on its own "
				"thread",
				keys[i]);
}

static void check_library(struct mt_diagnosis *out)
{
	char library[PATH_MAX], version[16] = "unknown";
	struct mt_error_reason why;

	if (mt_preload_find(library, sizeof(library), &why) != MT_ERR_OK)
		mt_finding_note(out, MT_WARN, "library", "make install, or set MTSHIM_LIBRARY",
				"%s", why.text);
	else if (mt_library_version(library, version, sizeof(version)) &&
		 strcmp(version, MT_VERSION) == 0)
		mt_finding_note(out, MT_OK, "library", NULL, "`mtctl run` preloads %s", library);
	else
		mt_finding_note(out, MT_WARN, "library",
				"install both from one version, or let MTSHIM_LIBRARY name the one "
				"that is meant",
				"`mtctl run` preloads %s, version %s; this mtctl is version %s",
				library, version, MT_VERSION);
}

void mt_rule_environment(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const char *ray = getenv("RAY_JEMALLOC_LIB_PATH");

	(void)facts;
	check_library(out);
	check_preload(out);
	check_conf(out);
	if (ray && *ray)
		mt_finding_note(out, MT_WARN, "ray",
				"unset it, or let it name the path of libmtshim.so",
				"RAY_JEMALLOC_LIB_PATH is set: Ray replaces LD_PRELOAD, its "
				"processes lose the shim");
}

/* Variables that begin with MT_ and are no settings. */
void mt_rule_names(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	static const char advice[] = "`mtctl options` lists all settings";
	size_t wrong = 0;

	for (size_t i = 0; i < facts->variables_count && wrong < NAMES_MAX; i++) {
		const char *name = facts->variables[i].name, *nearest;

		if (strncmp(name, "MT_", 3) != 0 || mt_setting_find(name))
			continue;
		wrong++;
		nearest = mt_setting_nearest(name);
		mt_finding_note(out, MT_WARN, "name", advice, "%s is no setting%s%s%s", name,
				nearest ? "; did you mean " : "",
				nearest ? mt_setting_find(nearest)->environment : "",
				nearest ? "?" : "");
	}
	if (wrong == NAMES_MAX)
		mt_finding_note(out, MT_WARN, "name", advice,
				"names after these %u are not checked", NAMES_MAX);
}

/* ---- rules kernel ---- */

#define PART_BYTES   (48 * MT_MIB) /* less is no finding */
#define PART_SHARE   0.30          /* of the memory that it is a part of */
#define GROUP_FULL   0.60          /* of the group's limit is used */
#define FILE_SHARE   0.50          /* of that, by files */
#define HUGE_SHARE   0.50          /* of the anonymous memory, in huge pages */
#define COPIED_SHARE 0.25          /* of what the tree holds */

static bool is_part(uint64_t bytes, uint64_t whole)
{
	return bytes >= PART_BYTES && (double)bytes >= (double)whole * PART_SHARE;
}

bool mt_diagnose_shmem_is_fixed(const struct mt_facts *facts)
{
	return mt_facts_last(facts)->shmem_bytes <= facts->shared_fixed_bytes;
}

/* The kernel counts page-locked memory of CUDA as shared memory. */
void mt_rule_shm(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t bytes =
		mt_sat_sub(mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, shmem_bytes)),
			   last->gpu_pinned_bytes);
	bool grows = out->shmem.shape == MT_TREND_GROWS;
	struct mt_finding *finding;

	if ((!is_part(bytes, last->rss_bytes) && !grows) || mt_diagnose_shmem_is_fixed(facts))
		return;
	if (grows)
		finding = mt_finding_add(
			out, MT_VERDICT_SHM, out->shmem.slope * MT_DIAGNOSE_HORIZON_S,
			out->shmem.confidence * 0.9, "shared memory (/dev/shm, memfd) grows by %s",
			mt_diagnose_rate(out->shmem.slope).text);
	else
		finding = mt_finding_add(out, MT_VERDICT_SHM, (double)bytes, 0.85,
					 "%s of its %s are shared memory (/dev/shm, memfd)",
					 mt_text_bytes(bytes).text,
					 mt_text_bytes(last->rss_bytes).text);
	finding->growth_per_s = grows ? out->shmem.slope : 0;
	mt_finding_bytes(finding, "resident shared memory", "rss_shmem_bytes", last->shmem_bytes);
	mt_finding_bytes(finding, "RSS", "rss_bytes", last->rss_bytes);
	if (facts->awake)
		mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
	if (grows)
		mt_finding_trend(finding, "shared memory", "shmem", &out->shmem);
	mt_finding_advise(finding,
			  "Unlink what is done with: ls -l /dev/shm; SharedMemory.close() and "
			  ".unlink(); lsof +L1 -p PID.");
	mt_finding_advise(finding, "With DataLoader: fewer workers or a smaller prefetch_factor; "
				   "queues that are drained.");
}

static uint64_t group_file_bytes(const struct mt_diagnose_group *group)
{
	return group->is_v1 ? group->file_bytes : mt_sat_sub(group->file_bytes, group->shmem_bytes);
}

/* The kernel reclaims file pages before it refuses an allocation or kills a process. */
void mt_rule_file_cache(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_diagnose_group *group = &facts->group;
	uint64_t files = group_file_bytes(group);
	double used =
		group->limit_bytes ? (double)group->usage_bytes / (double)group->limit_bytes : 0;
	struct mt_finding *finding;

	if (!group->known || used < GROUP_FULL ||
	    (double)files < (double)group->usage_bytes * FILE_SHARE || files < PART_BYTES)
		return;
	finding = mt_finding_add(out, MT_VERDICT_FILE_CACHE, (double)files, 0.8,
				 "%s of the %s that count against the container are file pages: "
				 "the kernel drops them first",
				 mt_text_bytes(files).text, mt_text_bytes(group->usage_bytes).text);
	mt_finding_show(finding, "used of the limit",
			group->is_v1 ? "usage_in_bytes" : "memory_current_bytes",
			(double)group->usage_bytes, "%s of %s (%.0f %%)",
			mt_text_bytes(group->usage_bytes).text,
			mt_text_bytes(group->limit_bytes).text, used * 100);
	mt_finding_bytes(finding, group->is_v1 ? "total_cache less total_shmem" : "file less shmem",
			 "group_file_bytes", files);
	mt_finding_bytes(finding, group->is_v1 ? "total_inactive_file" : "inactive_file",
			 "group_inactive_file_bytes", group->inactive_file_bytes);
	mt_finding_bytes(finding, group->is_v1 ? "total_active_file" : "active_file",
			 "group_active_file_bytes", group->active_file_bytes);
	mt_finding_bytes(finding, group->is_v1 ? "total_rss" : "anon", "group_anon_bytes",
			 group->anon_bytes);
	mt_finding_show(finding, "group", "group_version", group->is_v1 ? 1 : 2, "%.180s",
			group->directory);
	mt_finding_advise(finding,
			  "Nothing to fear: judge the container by its anonymous memory, %s, not "
			  "by its usage.",
			  mt_text_bytes(group->anon_bytes).text);
	mt_finding_advise(
		finding,
		"If alarms ring on usage, let them subtract inactive_file; "
		"posix_fadvise(POSIX_FADV_DONTNEED) drops pages of files that are done with.");
}

/* Mapped file pages. The kernel can reclaim them, but they are resident while they are used. */
void mt_rule_file_growth(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	struct mt_finding *finding;

	if (out->file.shape != MT_TREND_GROWS || out->rss.shape != MT_TREND_GROWS)
		return;
	finding = mt_finding_add(
		out, MT_VERDICT_FILE_CACHE, out->file.slope * MT_DIAGNOSE_HORIZON_S,
		out->file.confidence * 0.8,
		"pages of mapped files grow by %s: the kernel drops them when memory is short",
		mt_diagnose_rate(out->file.slope).text);
	finding->growth_per_s = out->file.slope;
	mt_finding_trend(finding, "mapped file pages", "file", &out->file);
	mt_finding_bytes(finding, "of RSS", "rss_file_bytes", last->file_bytes);
	mt_finding_advise(finding, "Nothing to fear: they are clean copies of files; "
				   "madvise(MADV_DONTNEED) drops those that are done with.");
}

void mt_diagnose_advise_ways_back(const struct mt_facts *facts, struct mt_finding *finding)
{
	for (size_t i = 0; i < facts->foreign_count; i++)
		if (facts->foreign[i].way_back)
			mt_finding_advise(finding, "%s: %s.", facts->foreign[i].name,
					  facts->foreign[i].way_back);
}

void mt_rule_private_allocator(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t bytes = mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, outside_bytes));
	bool grows = out->outside.shape == MT_TREND_GROWS, is_managed = true;
	struct mt_finding *finding;

	bytes = mt_sat_sub(bytes, last->gpu_pinned_bytes);
	for (size_t i = 0; i < facts->foreign_count; i++)
		is_managed &= facts->foreign[i].is_managed;
	if (facts->full_pids_max || !facts->foreign_count ||
	    (!grows && (is_managed || !is_part(bytes, last->anon_bytes))))
		return;
	finding = mt_finding_add(out, MT_VERDICT_PRIVATE,
				 grows ? out->outside.slope * MT_DIAGNOSE_HORIZON_S : (double)bytes,
				 grows ? out->outside.confidence * 0.7 : 0.7,
				 "%s lie outside of the heap, and %s is in the process",
				 mt_text_bytes(bytes).text, facts->foreign[0].name);
	finding->growth_per_s = grows ? out->outside.slope : 0;
	mt_finding_bytes(finding, "anonymous, outside of the heap", "outside_bytes", bytes);
	if (grows)
		mt_finding_trend(finding, "outside of the heap", "outside", &out->outside);
	mt_finding_bytes(finding, "anonymous memory in all", "anon_bytes", last->anon_bytes);
	if (mt_diagnose_knows_live(facts))
		mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
	for (size_t i = 0; i < facts->foreign_count; i++)
		mt_finding_show(finding, i ? "" : "allocators beside malloc",
				"foreign_allocators_count", (double)facts->foreign_count, "%s (%s)",
				facts->foreign[i].name, facts->foreign[i].file);
	mt_diagnose_advise_ways_back(facts, finding);
	mt_finding_advise(finding, "Point it to malloc, if it can: its own switch, or a build "
				   "without an allocator of its own.");
}

/* One used word keeps 2 MB resident in a huge page. Live heap bytes, and bytes that another finding
 * explains, do not count. */
void mt_rule_huge_pages(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t unnamed =
		mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, outside_bytes)) +
		mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, slack_bytes));
	uint64_t huge = facts->smaps_known ? facts->smaps.huge_bytes : 0, bytes;
	uint64_t refilled =
		facts->awake ? facts->last.head.cleanups_by_reason[MT_REASON_HUGE_PAGES] : 0;
	struct mt_finding *finding;

	if (facts->trim.done)
		unnamed = mt_sat_sub(unnamed, mt_sat_sub(facts->trim.record.anon_before_bytes,
							 facts->trim.record.anon_after_bytes));
	unnamed = mt_sat_sub(unnamed, last->gpu_pinned_bytes);
	bytes = unnamed < huge ? unnamed : huge;
	if (!is_part(bytes, last->anon_bytes) ||
	    (double)huge < (double)last->anon_bytes * HUGE_SHARE)
		return;
	finding = mt_finding_add(out, MT_VERDICT_HUGE_PAGES, (double)bytes, 0.6,
				 "%s are resident in transparent huge pages, of which nobody knows "
				 "that they are used",
				 mt_text_bytes(bytes).text);
	mt_finding_bytes(finding, "AnonHugePages", "huge_bytes", huge);
	mt_finding_bytes(finding, "anonymous memory in all", "anon_bytes", last->anon_bytes);
	mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
	mt_finding_bytes(finding, "neither live nor returned by a trim", "unnamed_bytes", unnamed);
	if (refilled)
		mt_finding_show(finding, "purged again, since the kernel had filled it",
				"huge_pages_cleanups_count", (double)refilled, "%s",
				mt_text_counted(refilled, "time", "times").text);
	mt_finding_advise(finding, "Restart it without: %s.",
			  facts->huge_pages_on_request
				  ? "NUMPY_MADVISE_HUGEPAGE=0, THP_MEM_ALLOC_ENABLE=0 (PyTorch), "
				    "GLIBC_TUNABLES=glibc.malloc.hugetlb=0"
				  : "MT_MALLOC_CONF=thp:never, or transparent_hugepage/enabled "
				    "set to madvise");
	mt_finding_advise(finding, "Where it asks for them itself (MADV_HUGEPAGE), ask only for "
				   "what is filled densely.");
}

void mt_rule_copies(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_process_tree_sums *sums = &facts->tree.last;
	uint64_t copied = sums->copied_bytes,
		 grown = mt_sat_sub(copied, facts->tree.first.copied_bytes);
	struct mt_finding *finding;

	if (!facts->tree.known || copied < PART_BYTES ||
	    (double)copied < (double)sums->pss_bytes * COPIED_SHARE)
		return;
	finding = mt_finding_add(
		out, MT_VERDICT_COPY_ON_WRITE, (double)copied, 0.8,
		"%s are copies that %s made of the parent's memory", mt_text_bytes(copied).text,
		mt_text_counted(facts->tree.forks_count, "forked worker has", "forked workers have")
			.text);
	mt_finding_bytes(finding, "copied", "copied_bytes", copied);
	mt_finding_bytes(finding, "of that, during the diagnosis", "copied_grown_bytes", grown);
	mt_finding_bytes(finding, "still shared", "shared_bytes", sums->shared_bytes);
	mt_finding_bytes(finding, "all of them together (PSS)", "pss_bytes", sums->pss_bytes);
	mt_finding_bytes(finding, "all of them by RSS (counted twice)", "family_rss_bytes",
			 sums->rss_bytes);
	mt_finding_advise(finding, "Keep what workers read in arrays (numpy, Arrow, torch), not in "
				   "Python objects: each use of one writes its reference count.");
	mt_finding_advise(finding, "Call gc.freeze() before the fork; fork early, before the data "
				   "is loaded, or put it in shared memory.");
	mt_finding_advise(finding, "Take fewer workers: each of them pays for its own copy.");
}
