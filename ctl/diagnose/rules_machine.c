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
	uint64_t swap = mt_limit_meminfo("", "SwapTotal"),
		 swap_free = mt_limit_meminfo("", "SwapFree");

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

static bool is_shim(const char *entry)
{
	return strcmp(mt_text_basename(entry), MT_SHIM_NAME) == 0;
}

static void check_entry(char *entry, size_t place, bool is_before_shim, struct mt_diagnosis *out)
{
	const char *allocator = mt_preload_allocator(entry);

	mt_text_clean(entry, strlen(entry) + 1);
	if (is_shim(entry) && place > 0)
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
	if (strchr(entry, '/') && !strchr(entry, '$') && access(entry, R_OK) != 0)
		mt_finding_note(out, MT_WARN, "preload", "correct LD_PRELOAD",
				"LD_PRELOAD: %s cannot be read", entry);
}

static void check_preload(struct mt_diagnosis *out)
{
	const char *value = getenv("LD_PRELOAD");
	char *copy = mt_error_check_memory(strdup(value ? value : "")), *saved = NULL;
	size_t place = 0, shims = 0;

	for (char *entry = strtok_r(copy, SEPARATORS, &saved); entry;
	     entry = strtok_r(NULL, SEPARATORS, &saved)) {
		bool has_shim = saved && strstr(saved, MT_SHIM_NAME);

		check_entry(entry, place++, has_shim && !shims, out);
		shims += is_shim(entry);
	}
	free(copy);
	if (shims > 1)
		mt_finding_note(out, MT_WARN, "preload", "leave one",
				"LD_PRELOAD: the shim stands in it %zu times", shims);
	else if (shims == 1)
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
