/* ctl/diagnose/doctor.c -- prints findings and counts the warnings; examines the machine and the
 * container. See doctor.h. */
#include "ctl/diagnose/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/preload.h"
#include "ctl/process/read_file.h"
#include "ctl/process/setting.h"
#include "ctl/process/stats_dir.h"

#define THP_FILE "/sys/kernel/mm/transparent_hugepage/enabled"
/* a stats file has some 80 kB for each process */
#define SHM_NEEDED ((uint64_t)1 << 20)

#define LINE_MAX_BYTES 1024u

static size_t warnings_count;
static json_t *collected; /* what is kept for JSON; NULL: it is printed */
static const char *section = "";

void mt_doctor_collect(void)
{
	collected = json_object();
	mt_json_set(collected, "checks", json_array());
	mt_json_set(collected, "facts", json_array());
}

json_t *mt_doctor_json(void)
{
	json_t *root = collected;

	mt_json_set_u64(root, "warnings_count", warnings_count);
	collected = NULL;
	return root;
}

void mt_doctor_begin(const char *title)
{
	section = title;
	if (!collected)
		printf("%s%s%s\n", mt_table_colour(MT_COLOUR_HEAD), title, mt_table_colour_end());
}

/* Paths and values of the environment may be anything. */
static void set_clean(json_t *object, const char *name, const char *text)
{
	char clean[LINE_MAX_BYTES];

	snprintf(clean, sizeof(clean), "%s", text);
	mt_text_clean(clean, sizeof(clean));
	mt_json_set_text(object, name, clean);
}

static void keep_check(const char *word, const char *text, const char *advice)
{
	json_t *object = json_object();

	set_clean(object, "section", section);
	mt_json_set_text(object, "finding", word);
	set_clean(object, "text", text);
	mt_json_set(object, "advice", json_null());
	if (advice)
		set_clean(object, "advice", advice);
	mt_json_append(json_object_get(collected, "checks"), object);
}

void mt_check_print(enum mt_check_state finding, const char *advice, const char *format, ...)
{
	static const char *const words[] = {"ok", "note", "warn"};
	static const enum mt_colour colours[] = {MT_COLOUR_OK, MT_COLOUR_NOTE, MT_COLOUR_WARN};
	char text[LINE_MAX_BYTES];
	va_list arguments;

	warnings_count += finding == MT_CHECK_WARN;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (collected) {
		keep_check(words[finding], text, advice);
		return;
	}
	printf("%s%-4s%s  %s\n", mt_table_colour(colours[finding]), words[finding],
	       mt_table_colour_end(), text);
	if (advice)
		printf("      -> %s\n", advice);
}

void mt_doctor_fact(const char *label, const char *text)
{
	json_t *object;

	if (!*text)
		return;
	if (!collected) {
		printf("      %-11s %s\n", label, text);
		return;
	}
	object = json_object();
	set_clean(object, "section", section);
	mt_json_set_text(object, "name", label);
	set_clean(object, "text", text);
	mt_json_append(json_object_get(collected, "facts"), object);
}

size_t mt_doctor_warnings(void)
{
	return warnings_count;
}

bool mt_doctor_variable(pid_t pid, const char *name, char *out, size_t out_bytes)
{
	const char *value = pid ? NULL : getenv(name);

	if (pid)
		return mt_process_environ(pid, name, out, out_bytes);
	if (!value || strlen(value) >= out_bytes)
		return false;
	strcpy(out, value);
	return true;
}

/* ---- the machine ---- */

static void check_thp(void)
{
	char *text = mt_read_file(THP_FILE, NULL), *chosen = text ? strchr(text, '[') : NULL;

	if (!chosen)
		mt_check_print(MT_CHECK_NOTE, NULL, "transparent huge pages: not in this kernel");
	else if (strncmp(chosen, "[always]", 8) == 0)
		mt_check_print(MT_CHECK_NOTE,
			       "MT_MALLOC_CONF=thp:never for large blocks too, or echo madvise "
			       "> " THP_FILE,
			       "transparent huge pages: always; blocks below 4 MB get none");
	else
		mt_check_print(MT_CHECK_OK, NULL, "transparent huge pages: %.*s",
			       (int)strcspn(chosen + 1, "]"), chosen + 1);
	free(text);
}

static void check_shm(void)
{
	struct statvfs status;
	uint64_t free_bytes;

	if (statvfs("/dev/shm", &status) != 0) {
		mt_check_print(MT_CHECK_WARN, "mount a tmpfs on /dev/shm, or set MT_DIR",
			       "/dev/shm: %s", strerror(errno));
		return;
	}
	free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
	mt_check_print(free_bytes < SHM_NEEDED ? MT_CHECK_WARN : MT_CHECK_OK,
		       free_bytes < SHM_NEEDED
			       ? "make room, or set MT_DIR; until then there are no stats files"
			       : NULL,
		       "/dev/shm: %s free", mt_text_bytes(free_bytes).text);
}

static void check_directory(void)
{
	char path[PATH_MAX];
	struct stat status;
	bool is_in_memory;

	mt_stats_dir_path(path, sizeof(path));
	is_in_memory = mt_stats_dir_is_in_memory(path);
	mt_text_clean(path, sizeof(path));
	if (!is_in_memory)
		mt_check_print(
			MT_CHECK_WARN,
			"set MT_DIR to a directory on a tmpfs; until then there are no stats files",
			"%s: not on a file system in memory", path);
	else if (lstat(path, &status) != 0)
		mt_check_print(errno == ENOENT ? MT_CHECK_OK : MT_CHECK_WARN,
			       errno == ENOENT ? NULL : "set MT_DIR to a directory of your own",
			       "%s: %s", path,
			       errno == ENOENT
				       ? "not there yet; the first process that wakes up makes it"
				       : strerror(errno));
	else if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid())
		mt_check_print(MT_CHECK_WARN, "remove it, or set MT_DIR to a directory of your own",
			       "%s: %s of user %u; it is refused", path,
			       S_ISDIR(status.st_mode) ? "a directory" : "no directory",
			       (unsigned)status.st_uid);
	else if (status.st_mode & 077)
		mt_check_print(MT_CHECK_WARN, "chmod 700 it: others may read it, or write to it",
			       "%s: mode %03o", path, (unsigned)(status.st_mode & 0777));
	else
		mt_check_print(MT_CHECK_OK, NULL, "%s: yours, mode %03o", path,
			       (unsigned)(status.st_mode & 0777));
}

void mt_doctor_check_machine(pid_t pid)
{
	check_thp();
	check_shm();
	check_directory();
	mt_doctor_check_stalls(pid);
}

/* ---- doctor environment ---- */

/* What the environment would do to a program under the shim. */

#define SEPARATORS " :"
/* unknown names that are listed: a process may have a million of them */
#define NAMES_MAX 20u

static bool is_shim(const char *entry)
{
	return strcmp(mt_text_basename(entry), MT_SHIM_NAME) == 0;
}

static void check_entry(char *entry, size_t place, bool is_before_shim)
{
	const char *allocator = mt_preload_allocator(entry);

	mt_text_clean(entry, strlen(entry) + 1);
	if (is_shim(entry) && place > 0)
		mt_check_print(MT_CHECK_WARN,
			       "put it first: what stands before it serves malloc instead",
			       "LD_PRELOAD: %s is entry %zu", entry, place + 1);
	else if (allocator && is_before_shim)
		mt_check_print(MT_CHECK_NOTE, "put libmtshim.so first",
			       "LD_PRELOAD: %s (%s) stands before the shim: it serves malloc",
			       entry, allocator);
	else if (allocator)
		mt_check_print(MT_CHECK_NOTE, "MT_ALLOCATOR=jemalloc uses the embedded one instead",
			       "LD_PRELOAD: %s (%s) stands in line: with MT_ALLOCATOR=auto the "
			       "shim leaves malloc to it and purges it",
			       entry, allocator);
	if (strchr(entry, '/') && !strchr(entry, '$') && access(entry, R_OK) != 0)
		mt_check_print(MT_CHECK_WARN, "correct LD_PRELOAD", "LD_PRELOAD: %s cannot be read",
			       entry);
}

static void check_preload(void)
{
	const char *value = getenv("LD_PRELOAD");
	char *copy = mt_error_check_memory(strdup(value ? value : "")), *saved = NULL;
	size_t place = 0, shims = 0;

	for (char *entry = strtok_r(copy, SEPARATORS, &saved); entry;
	     entry = strtok_r(NULL, SEPARATORS, &saved)) {
		bool has_shim = saved && strstr(saved, MT_SHIM_NAME);

		check_entry(entry, place++, has_shim && !shims);
		shims += is_shim(entry);
	}
	free(copy);
	if (shims > 1)
		mt_check_print(MT_CHECK_WARN, "leave one",
			       "LD_PRELOAD: the shim stands in it %zu times", shims);
	else if (shims == 1)
		mt_check_print(MT_CHECK_OK, NULL,
			       "LD_PRELOAD: the shim is in it, programs from here carry it");
	else
		mt_check_print(
			MT_CHECK_NOTE, "mtctl run -- program...",
			"LD_PRELOAD: the shim is not in it, programs from here do not carry it");
}

/* Settings of jemalloc that the shim does not pass on. */
static void check_conf(void)
{
	static const char *const keys[] = {"dirty_decay_ms", "muzzy_decay_ms", "background_thread"};
	const char *conf = getenv("MALLOC_CONF");

	for (size_t i = 0; conf && i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strstr(conf, keys[i]))
			mt_check_print(
				MT_CHECK_NOTE,
				"MT_MALLOC_CONF is taken by the word, should it really be wanted",
				"MALLOC_CONF: %s is ignored: the shim purges by policy, on its own "
				"thread",
				keys[i]);
}

static void check_ray(void)
{
	const char *path = getenv("RAY_JEMALLOC_LIB_PATH");

	if (path && *path)
		mt_check_print(MT_CHECK_WARN, "unset it, or let it name the path of libmtshim.so",
			       "RAY_JEMALLOC_LIB_PATH is set: Ray replaces LD_PRELOAD, its "
			       "processes lose the shim");
}

/* Whether an entry begins with MT_ and is no setting. Prints a warning then. */
static bool check_name(const char *entry)
{
	char name[64];
	const char *nearest;

	if (strncmp(entry, "MT_", 3) != 0)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry, "="), entry);
	mt_text_clean(name, sizeof(name));
	if (mt_setting_find(name))
		return false;
	nearest = mt_setting_nearest(name);
	mt_check_print(MT_CHECK_WARN, "`mtctl options` lists all settings",
		       "%s is no setting%s%s%s", name, nearest ? "; did you mean " : "",
		       nearest ? mt_setting_find(nearest)->environment : "", nearest ? "?" : "");
	return true;
}

void mt_doctor_check_names(const char *list, size_t list_bytes)
{
	size_t wrong = 0;

	for (const char *entry = list; entry < list + list_bytes && wrong < NAMES_MAX;
	     entry += strlen(entry) + 1)
		wrong += check_name(entry);
	if (wrong == NAMES_MAX)
		mt_check_print(MT_CHECK_WARN, "`mtctl options` lists all settings",
			       "names after these %u are not checked", NAMES_MAX);
}

static void check_library(void)
{
	char library[PATH_MAX], version[16] = "unknown";
	struct mt_error_reason why;

	if (mt_preload_find(library, sizeof(library), &why) != MT_ERR_OK)
		mt_check_print(MT_CHECK_WARN, "make install, or set MTSHIM_LIBRARY", "%s",
			       why.text);
	else if (mt_library_version(library, version, sizeof(version)) &&
		 strcmp(version, MT_VERSION) == 0)
		mt_check_print(MT_CHECK_OK, NULL, "`mtctl run` preloads %s", library);
	else
		mt_check_print(MT_CHECK_WARN,
			       "install both from one version, or let MTSHIM_LIBRARY name the one "
			       "that is meant",
			       "`mtctl run` preloads %s, version %s; this mtctl is version %s",
			       library, version, MT_VERSION);
}

void mt_doctor_check_environment(void)
{
	check_library();
	check_preload();
	check_conf();
	check_ray();
	mt_doctor_check_gpu_environment(0);
	for (char **entry = environ; *entry; entry++)
		check_name(*entry);
}
