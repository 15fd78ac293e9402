/* ctl/diagnose/mappings.c -- the maps and the cgroup of a process; requests for its size classes
 * and for the test trim. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"
#include "ctl/process/control_file.h"
#include "ctl/process/limit.h"
#include "ctl/process/process_limit.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/process/preload.h"
#include "ctl/process/target.h"
#include "ctl/process/read_file.h"

#define TRIM_TIMEOUT_MS    30000u
#define CLASSES_TIMEOUT_MS 3000u
#define RECORD_TRIES       350 /* 10 ms apart */

/* ---- maps ---- */

/* Each was seen at rest, before and after its way back (docs/decisions/0054). Without one: the
 * allocator returns what is free by itself, or offers nothing. */
#define DUCKDB                                                                                     \
	"DuckDB's jemalloc", "DuckDB allocates from its own jemalloc",                             \
		"SET allocator_background_threads=true; in DuckDB returns what is free"
#define PYARROW                                                                                    \
	"pyarrow's own pool", "pyarrow allocates from its own jemalloc or mimalloc",               \
		"pyarrow.default_memory_pool().release_unused(), which a heavy cleanup calls, or " \
		"ARROW_DEFAULT_MEMORY_POOL=system"
#define V8 "V8's heap", "V8's heap is not malloc's", NULL
#define POLARS                                                                                     \
	"polars' jemalloc", "polars allocates from its own jemalloc",                              \
		"it returns what is free within seconds (_RJEM_MALLOC_CONF)"

const struct mt_diagnose_carrier *mt_diagnose_carrier(const char *path)
{
	static const struct mt_diagnose_carrier carriers[] = {
		{"_duckdb.", DUCKDB, .is_managed = false},
		{"duckdb", DUCKDB, .is_managed = false},
		{"libduckdb", DUCKDB, .is_managed = false},
		{"libarrow.so", PYARROW, .is_managed = false},
		{"libarrow-", PYARROW, .is_managed = false},
		{"polars.abi3.so", POLARS, .is_managed = false},
		{"_polars_runtime", POLARS, .is_managed = false},
#ifdef __aarch64__
		{"libtorch_cpu.so", "torch's mimalloc",
		 "torch on this architecture allocates from its own mimalloc",
		 "MIMALLOC_PURGE_DELAY=0", .is_managed = false},
#endif
		{"libjemalloc", "jemalloc", NULL, "MALLOC_CONF=background_thread:true",
		 .is_managed = false},
		{"libmimalloc", "mimalloc", NULL, "MIMALLOC_PURGE_DELAY=0", .is_managed = false},
		{"libnode.so", V8, .is_managed = true},
		{"node", V8, .is_managed = true, .is_whole = true},
		{"libjvm.so", "the Java heap", "the Java heap is not malloc's",
		 "jcmd PID GC.run, System.trim_native_heap", .is_managed = true},
		{"php", "PHP's heap", "PHP's request memory is not malloc's", "USE_ZEND_ALLOC=0",
		 .is_managed = true},
	};
	const char *base = mt_text_basename(path);

	for (size_t i = 0; i < sizeof(carriers) / sizeof(carriers[0]); i++)
		if (strncmp(base, carriers[i].prefix, strlen(carriers[i].prefix)) == 0 &&
		    (!carriers[i].is_whole || !base[strlen(carriers[i].prefix)]))
			return &carriers[i];
	return NULL;
}

/* The allocator that serves malloc is not listed: the shim's evidence names its file. */
static void note_file(struct mt_facts *facts, const char *path)
{
	const struct mt_diagnose_carrier *carrier = mt_diagnose_carrier(path);
	const char *base = mt_text_basename(path),
		   *name = carrier ? carrier->name : mt_preload_allocator(path);
	struct mt_diagnose_foreign *to = &facts->foreign[facts->foreign_count];

	facts->is_python |= strncmp(base, "libpython", 9) == 0 || strncmp(base, "python", 6) == 0;
	facts->has_torch |= strncmp(base, "libc10_cuda.so", 14) == 0 ||
			    strncmp(base, "libtorch_cuda.so", 16) == 0;
	facts->has_libcuda |= strncmp(base, "libcuda.so", 10) == 0;
	if (!name || facts->foreign_count == MT_DIAGNOSE_FOREIGN ||
	    strstr(facts->last.head.evidence, base))
		return;
	snprintf(to->name, sizeof(to->name), "%s", name);
	snprintf(to->file, sizeof(to->file), "%.95s", base);
	mt_text_clean(to->file, sizeof(to->file));
	snprintf(to->path, sizeof(to->path), "%.159s", path);
	mt_text_clean(to->path, sizeof(to->path));
	to->is_managed = carrier && carrier->is_managed;
	to->way_back = carrier ? carrier->way_back : NULL;
	to->explanation = carrier ? carrier->explanation : NULL;
	facts->foreign_count++;
}

/* Whether small objects are in pymalloc: neither the shim nor the user has chosen malloc. */
static bool uses_pymalloc(const struct mt_facts *facts)
{
	const char *value = mt_facts_variable(facts, "PYTHONMALLOC");

	if (!facts->is_python || strstr(facts->last.head.python, "is answered") ||
	    strcmp(facts->last.head.python, "object heap") == 0)
		return false;
	return !value || !*value || strncmp(value, "pymalloc", 8) == 0 ||
	       strcmp(value, "default") == 0;
}

/* Keeps "NAME=value" where an allocator, a runtime or a framework reads it. */
static void note_variable(struct mt_facts *facts, const char *entry)
{
	static const char *const prefixes[] = {"MT_",
					       "PYTHON",
					       "MALLOC_",
					       "GLIBC_TUNABLES",
					       "_RJEM_",
					       "MIMALLOC_",
					       "ARROW_",
					       "PYTORCH_",
					       "USE_ZEND_ALLOC",
					       "WORLD_SIZE",
					       "TF_GPU_ALLOCATOR",
					       "MEMORY_PRESSURE_WATCH"};
	struct mt_diagnose_variable *to = &facts->variables[facts->variables_count];
	size_t name = strcspn(entry, "=");
	bool wanted = false;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		wanted |= strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0;
	if (!wanted || !entry[name] || facts->variables_count == MT_DIAGNOSE_VARIABLES)
		return;
	snprintf(to->name, sizeof(to->name), "%.*s", (int)name, entry);
	snprintf(to->value, sizeof(to->value), "%.511s", entry + name + 1);
	mt_text_clean(to->name, sizeof(to->name));
	mt_text_clean(to->value, sizeof(to->value));
	facts->variables_count++;
}

static void read_variables(struct mt_facts *facts)
{
	size_t length = 0;
	char *list = mt_process_read_memory(facts->process.pid, "environ", &length);

	facts->variables_count = 0;
	for (const char *at = list; list && at < list + length; at += strlen(at) + 1)
		note_variable(facts, at);
	free(list);
}

void mt_diagnose_look_here(struct mt_facts *facts)
{
	const char *given;

	for (char **entry = environ; *entry; entry++)
		note_variable(facts, *entry);
	given = mt_facts_variable(facts, "MT_CGROUP");
	facts->limit_known =
		(given && *given && mt_limit_find_in("", given, &facts->limit) == MT_ERR_OK) ||
		mt_limit_find("", 0, &facts->limit) == MT_ERR_OK;
	mt_text_clean(facts->limit.source, sizeof(facts->limit.source));
}

static bool gives_huge_pages_on_request(void)
{
	char *text = mt_read_file("/sys/kernel/mm/transparent_hugepage/enabled", NULL);
	bool is_so = text && strstr(text, "[madvise]");

	free(text);
	return is_so;
}

/* MAP_SHARED with MAP_ANONYMOUS is a deleted /dev/zero in maps. */
static void note_shared(struct mt_facts *facts, const char *line, const char *path)
{
	uint64_t from, to, bytes;
	char shared;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%*c%*c%c", &from, &to, &shared) != 3 ||
	    mt_smaps_kind_of(path, shared == 's') != MT_SMAPS_SHM)
		return;
	bytes = mt_sat_sub(to, from);
	facts->shm_mapped_bytes += bytes;
	facts->shm_mapped_count++;
	if (shared == 's' &&
	    (strcmp(path, "/dev/zero (deleted)") == 0 || strncmp(path, "/SYSV", 5) == 0))
		facts->shared_fixed_bytes += bytes;
}

void mt_diagnose_read_maps(struct mt_facts *facts)
{
	char *maps = mt_process_maps(facts->process.pid), *saved = NULL, last[512] = "";

	read_variables(facts);
	facts->foreign_count = 0;
	facts->shared_fixed_bytes = facts->shm_mapped_bytes = facts->shm_mapped_count = 0;
	for (char *line = maps ? strtok_r(maps, "\n", &saved) : NULL; line;
	     line = strtok_r(NULL, "\n", &saved)) {
		char *path = strchr(line, '/');

		if (path)
			note_shared(facts, line, path);
		if (!path || !strstr(line, " r-xp ") || strcmp(path, last) == 0)
			continue;
		snprintf(last, sizeof(last), "%.511s", path);
		note_file(facts, path);
	}
	free(maps);
	facts->is_python |= *facts->last.head.python != '\0';
	facts->has_pymalloc = uses_pymalloc(facts);
	facts->huge_pages_on_request = gives_huge_pages_on_request();
}

/* ---- the cgroup ---- */

static uint64_t number_in(const char *directory, const char *file, const char *key)
{
	uint64_t value = 0;

	return mt_cgroup_file_number(directory, file, key, &value) ? value : 0;
}

/* A limit above the memory of the machine does not count. */
static uint64_t limit_in(const char *directory, const char *file)
{
	uint64_t limit = number_in(directory, file, NULL),
		 machine = mt_limit_meminfo("", "MemTotal");

	return machine && limit >= machine ? 0 : limit;
}

static void read_v2(struct mt_diagnose_group *to)
{
	const char *at = to->directory;

	to->usage_bytes = number_in(at, "memory.current", NULL);
	to->limit_bytes = limit_in(at, "memory.max");
	to->anon_bytes = number_in(at, "memory.stat", "anon");
	to->file_bytes = number_in(at, "memory.stat", "file");
	to->inactive_file_bytes = number_in(at, "memory.stat", "inactive_file");
	to->active_file_bytes = number_in(at, "memory.stat", "active_file");
	to->shmem_bytes = number_in(at, "memory.stat", "shmem");
	to->oom_kill_count = number_in(at, "memory.events", "oom_kill");
	to->max_count = number_in(at, "memory.events", "max");
}

/* total_... includes the descendants, as version 2 does. total_cache includes shared memory. */
static void read_v1(struct mt_diagnose_group *to)
{
	const char *at = to->directory;
	uint64_t cache = number_in(at, "memory.stat", "total_cache");

	to->usage_bytes = number_in(at, "memory.usage_in_bytes", NULL);
	to->limit_bytes = limit_in(at, "memory.limit_in_bytes");
	to->anon_bytes = number_in(at, "memory.stat", "total_rss");
	to->shmem_bytes = number_in(at, "memory.stat", "total_shmem");
	to->file_bytes = cache > to->shmem_bytes ? cache - to->shmem_bytes : 0;
	to->inactive_file_bytes = number_in(at, "memory.stat", "total_inactive_file");
	to->active_file_bytes = number_in(at, "memory.stat", "total_active_file");
	to->oom_kill_count = number_in(at, "memory.oom_control", "oom_kill");
	to->max_count = number_in(at, "memory.failcnt", NULL);
}

void mt_diagnose_read_group(const struct mt_facts *facts, struct mt_diagnose_group *out)
{
	memset(out, 0, sizeof(*out));
	if (!mt_process_limit_directory(&facts->process, facts->awake ? &facts->last : NULL,
					facts->limit_known ? &facts->limit : NULL, out->directory,
					sizeof(out->directory)))
		return;
	out->is_v1 = number_in(out->directory, "memory.limit_in_bytes", NULL) != 0;
	(out->is_v1 ? read_v1 : read_v2)(out);
	if (facts->limit_known && facts->limit.is_cgroup) /* memory.high, too */
		out->limit_bytes = facts->limit.limit_bytes;
	out->known = out->usage_bytes != 0;
	/* any user may have chosen the name; from here on it is printed, and not opened */
	mt_text_clean(out->directory, sizeof(out->directory));
}

/* ---- requests ---- */

void mt_diagnose_read_classes(const struct mt_process *process, struct mt_diagnose_classes *out)
{
	const struct mt_request request = {.kind = MT_REQUEST_CLASSES};
	struct mt_stats_file *file;
	struct mt_error_reason why;

	if (mt_control_file_request(process, request, CLASSES_TIMEOUT_MS, &why) != MT_ERR_OK)
		return;
	file = mt_error_check_memory(malloc(sizeof(*file)));
	if (mt_target_read(process, file, &why) == MT_ERR_OK) {
		out->count = file->head.classes_count;
		memcpy(out->list, file->classes, sizeof(out->list));
	}
	free(file);
}

/* The reply to a request that was merged into a running cleanup comes before the record of that
 * cleanup. */
void mt_diagnose_trim_now(const struct mt_process *process, enum mt_level level,
			  struct mt_diagnose_trim *out)
{
	const struct mt_request request = {.kind = MT_REQUEST_TRIM, .level = level};
	struct mt_stats_file *file = mt_error_check_memory(malloc(sizeof(*file)));
	const struct mt_stats_cleanup *record = NULL;
	struct mt_control_call call;
	struct mt_stats_head head;
	struct mt_error_reason why = {""};
	enum mt_err error = mt_control_file_send(process, request, TRIM_TIMEOUT_MS, &call, &why);

	*out = (struct mt_diagnose_trim){.requested = true, .level = level};
	if (!error)
		error = mt_control_file_wait(&call, &head, &why);
	if (!error && head.snapshot.request_error)
		error = mt_error_because(&why, MT_ERR_INVALID, "%s",
					 mt_error_text(head.snapshot.request_error));
	for (int try = 0; !error && !record && try < RECORD_TRIES; try++) {
		if (try)
			mt_clock_sleep_ms(10);
		error = mt_target_read(process, file, &why);
		record = error ? NULL : mt_stats_file_cleanup_of_request(file, call.seq);
	}
	out->done = record != NULL;
	if (record)
		out->record = *record;
	else
		snprintf(out->why_not, sizeof(out->why_not), "%.150s",
			 error ? why.text : "it left no record");
	free(file);
}
