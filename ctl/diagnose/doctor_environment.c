/* ctl/diagnose/doctor_environment.c -- what the environment would do to a program under the
 * shim. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/diagnose/doctor.h"
#include "ctl/process/preload.h"
#include "ctl/process/setting.h"
#include "ctl/output/text.h"

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
