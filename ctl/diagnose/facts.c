/* ctl/diagnose/facts.c -- gathers the facts about a process: its maps, environment and cgroup,
 * requests for its size classes and for the test trim, the stacks that allocate what grows, and
 * samples over time. The only part that knows a process. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/channel/control_file.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/diagnose/facts_internal.h"
#include "ctl/process/clock.h"
#include "ctl/process/look.h"
#include "ctl/process/preload.h"
#include "ctl/process/read_file.h"
#include "ctl/process/start_command.h"
#include "ctl/profile/sites.h"

#define CLASSES_TIMEOUT_MS 3000u
/* free in libc's heaps: less is no finding, and not worth a walk through the page tables */
#define LIBC_FREE_BYTES (64 * MT_MIB)

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

	if (!facts->is_python || facts->last.head.python == MT_PYTHON_USES_MALLOC ||
	    facts->last.head.python == MT_PYTHON_USES_OBJECT_HEAP)
		return false;
	return !value || !*value || strncmp(value, "pymalloc", 8) == 0 ||
	       strcmp(value, "default") == 0;
}

/* Keeps "NAME=value" if an allocator, a runtime or a framework reads it. */
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
static void note_shared(struct mt_facts *facts, const struct mt_maps_line *line)
{
	bool is_shared = line->permissions[3] == 's';

	if (mt_smaps_kind_of(line->name, is_shared) != MT_SMAPS_SHM)
		return;
	facts->shm_mapped_bytes += line->end - line->start;
	facts->shm_mapped_count++;
	if (is_shared && (strcmp(line->name, "/dev/zero (deleted)") == 0 ||
			  strncmp(line->name, "/SYSV", 5) == 0))
		facts->shared_fixed_bytes += line->end - line->start;
}

void mt_diagnose_read_maps(struct mt_facts *facts)
{
	char *maps = mt_process_maps(facts->process.pid), *rest = maps, last[512] = "";
	struct mt_maps_line line;

	read_variables(facts);
	facts->foreign_count = 0;
	facts->shared_fixed_bytes = facts->shm_mapped_bytes = facts->shm_mapped_count = 0;
	while (mt_maps_next(&rest, &line)) {
		if (*line.name != '/')
			continue;
		note_shared(facts, &line);
		if (strcmp(line.permissions, "r-xp") != 0 || strcmp(line.name, last) == 0)
			continue;
		snprintf(last, sizeof(last), "%.511s", line.name);
		note_file(facts, line.name);
	}
	free(maps);
	facts->is_python |= facts->last.head.python != MT_PYTHON_USES_UNKNOWN;
	facts->has_pymalloc = uses_pymalloc(facts);
	facts->huge_pages_on_request = gives_huge_pages_on_request();
}

/* ---- the cgroup ---- */

static void read_figures(struct mt_diagnose_group *to)
{
#define X(name, file, key, old_file, old_key)                                                      \
	(void)mt_cgroup_file_number(to->directory, to->is_v1 ? old_file : file,                    \
				    to->is_v1 ? old_key : key, &to->name);
	MT_GROUP_FIGURES(X)
#undef X
	if (to->is_v1) /* total_cache includes shared memory */
		to->file_bytes = mt_sat_sub(to->file_bytes, to->shmem_bytes);
}

void mt_diagnose_read_group(const struct mt_facts *facts, struct mt_diagnose_group *out)
{
	uint64_t limit;

	memset(out, 0, sizeof(*out));
	if (!mt_process_limit_directory(&facts->process, facts->awake ? &facts->last : NULL,
					facts->limit_known ? &facts->limit : NULL, out->directory,
					sizeof(out->directory)))
		return;
	out->is_v1 = mt_cgroup_file_number(out->directory, "memory.limit_in_bytes", NULL, &limit);
	read_figures(out);
	if (facts->limit_known && facts->limit.is_cgroup)
		out->limit_bytes = facts->limit.limit_bytes;
	out->known = out->usage_bytes != 0;
	/* any user may have chosen the name; from here on it is printed, and not opened */
	mt_text_clean(out->directory, sizeof(out->directory));
}

/* ---- requests ---- */

static void read_classes(const struct mt_process *process, struct mt_diagnose_classes *out)
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

static void trim_now(const struct mt_process *process, enum mt_level level,
		     struct mt_diagnose_trim *out)
{
	struct mt_trim_requests *requests =
		mt_trim_requests_new(process, 1, level, MT_TRIM_TIMEOUT_MS);
	const struct mt_trim_reply *reply = mt_trim_requests_wait(requests, 0);

	*out = (struct mt_diagnose_trim){
		.requested = true, .level = level, .done = reply->has_cleanup};
	if (reply->has_cleanup)
		out->record = reply->cleanup;
	else
		snprintf(out->why_not, sizeof(out->why_not), "%.150s",
			 reply->error ? reply->why.text : mt_trim_reply_error(reply));
	mt_trim_requests_free(requests);
}

/* ---- sites ---- */

/* Which call sites allocate what grows: jemalloc's sampler samples between the first and the last
 * sample if it is ready; the profiles from before and after are compared. The setting prof
 * belongs to the user: the process samples by a request of its own, which is renewed at each
 * sample, and runs out if mtctl is killed. */

#define SAMPLE_TIMEOUT_MS 3000u
/* The process samples for so long after the last request: the steps between samples, and what a
 * cleanup and a profile may take. */
#define SAMPLE_MIN_MS 60000u
#define SAMPLE_STEPS  4 /* of the look */

struct mt_diagnose_profile {
	uint64_t number; /* of this look, for MT_REQUEST_SAMPLE */
	struct mt_sites before;
};

/* ms 0: no longer. */
static struct mt_request sample_for(const struct mt_diagnose_profile *profile, uint64_t ms)
{
	struct mt_request request = {.kind = MT_REQUEST_SAMPLE};

	snprintf(request.value, sizeof(request.value), "%" PRIu64 " %" PRIu64, profile->number, ms);
	return request;
}

/* How long the process samples from a request on. */
static uint64_t sampled_ms(const struct mt_facts *facts)
{
	double ms = SAMPLE_MIN_MS + facts->duration_s * 1000 * SAMPLE_STEPS / MT_DIAGNOSE_SAMPLES;

	return ms < MT_SAMPLE_MS_MAX ? (uint64_t)ms : MT_SAMPLE_MS_MAX;
}

static void end_sampling(const struct mt_process *process,
			 const struct mt_diagnose_profile *profile)
{
	struct mt_error_reason why;

	(void)mt_control_file_request(process, sample_for(profile, 0), SAMPLE_TIMEOUT_MS, &why);
}

static struct mt_diagnose_profile *begin_profile(struct mt_facts *facts)
{
	struct mt_diagnose_profile *profile = mt_error_check_memory(calloc(1, sizeof(*profile)));
	const char *why_not = mt_stats_why_no_profile(&facts->first.head);
	struct mt_error_reason why;
	enum mt_err error =
		why_not ? mt_error_because(&why, MT_ERR_NOT_AVAILABLE, "%s", why_not) : MT_ERR_OK;

	profile->number = mt_clock_now_ns();
	/* also if it samples already: the user may switch it off meanwhile */
	if (!error)
		error = mt_control_file_request(&facts->process,
						sample_for(profile, sampled_ms(facts)),
						SAMPLE_TIMEOUT_MS, &why);
	if (!error) {
		error = mt_sites_collect(&facts->process, &profile->before, &why);
		if (!error)
			return profile;
		end_sampling(&facts->process, profile);
	}
	snprintf(facts->sites.why_not, sizeof(facts->sites.why_not), "%.150s", why.text);
	free(profile);
	return NULL;
}

static bool ask_again(const struct mt_facts *facts)
{
	struct mt_error_reason why;

	if (!facts->profile)
		return mt_control_file_refresh(&facts->process);
	return mt_control_file_request(&facts->process,
				       sample_for(facts->profile, sampled_ms(facts)),
				       MT_CONTROL_FRESH_MS, &why) == MT_ERR_OK;
}

/* The first two frames of a stack: the second one tells callers of a helper apart. The line of
 * Python does so better. */
static void describe(const struct mt_site *site, char *out, size_t out_bytes)
{
	size_t first = mt_sites_first_frame(site);

	snprintf(out, out_bytes, "%.100s", mt_sites_name(site));
	if (site->python)
		snprintf(out + strlen(out), out_bytes - strlen(out), ", from %.100s", site->python);
	else if (first + 1 < site->frames_count)
		snprintf(out + strlen(out), out_bytes - strlen(out), ", called by %.100s",
			 site->frames[first + 1]);
	mt_text_clean(out, out_bytes);
}

static void note_growth(const struct mt_sites *grown, struct mt_diagnose_sites *to)
{
	to->known = true;
	for (size_t i = 0; i < grown->count && to->count < MT_DIAGNOSE_SITES; i++) {
		struct mt_diagnose_site *site = &to->list[to->count++];

		describe(&grown->list[i], site->name, sizeof(site->name));
		site->grown_bytes = grown->list[i].live_bytes;
		site->grown_count = grown->list[i].live_count;
		site->sampled_count = grown->list[i].sampled_count;
	}
}

static void end_profile(struct mt_facts *facts, struct mt_diagnose_profile *profile)
{
	struct mt_sites after, grown;
	struct mt_error_reason why;

	if (!profile)
		return;
	if (mt_sites_collect(&facts->process, &after, &why) == MT_ERR_OK) {
		mt_sites_growth(&profile->before, &after, &grown);
		note_growth(&grown, &facts->sites);
		mt_sites_free(&grown);
		mt_sites_free(&after);
	} else {
		snprintf(facts->sites.why_not, sizeof(facts->sites.why_not), "%.150s", why.text);
	}
	end_sampling(&facts->process, profile);
	mt_sites_free(&profile->before);
	free(profile);
}

/* ---- process sample ---- */

/* samples in a row without a reply: from then on it gets a request only at every */
#define SILENT_MAX  2u
#define SILENT_STEP 16u /* ... sample, since each wait takes a second */
/* reading Python's arenas takes up to one part in so many of the time */
#define ARENAS_SHARE 20u

static uint64_t status_bytes(const char *status, const char *key)
{
	uint64_t kilobytes = 0;

	return mt_read_file_number(status, key, &kilobytes) ? kilobytes * 1024 : 0;
}

static bool read_status(struct mt_facts *facts, struct mt_sample *to)
{
	char *status = mt_process_read(facts->process.pid, "status", NULL);
	const char *state;
	uint64_t thp;

	if (!status)
		return false;
	state = strstr(status, "\nState:\t");
	facts->is_stopped = state && strchr("Tt", state[strlen("\nState:\t")]);
	(void)mt_read_file_number(status, "Threads", &facts->threads_last);
	if (!facts->samples_count)
		facts->threads_first = facts->threads_last;
	to->anon_bytes = status_bytes(status, "RssAnon");
	to->file_bytes = status_bytes(status, "RssFile");
	to->shmem_bytes = status_bytes(status, "RssShmem");
	to->swap_bytes = status_bytes(status, "VmSwap");
	to->rss_bytes = to->anon_bytes + to->file_bytes + to->shmem_bytes;
	facts->locked_bytes = status_bytes(status, "VmLck");
	if (mt_read_file_number(status, "THP_enabled", &thp))
		facts->thp_enabled = thp ? '1' : '0';
	free(status);
	return true;
}

/* The upper bound of the heap's resident bytes: what its allocator reports as resident, or as
 * mapped. If it reports neither, nothing counts as outside. */
static void fill_heap(const struct mt_stats_snapshot *from, struct mt_sample *to)
{
	uint64_t top =
		from->heap_resident_bytes ? from->heap_resident_bytes : from->heap_mapped_bytes;
	uint64_t anon = mt_sat_sub(to->anon_bytes, to->arenas_bytes);

	to->live_bytes = from->heap_live_bytes;
	to->idle_bytes = from->heap_idle_bytes;
	to->dirty_bytes = from->heap_dirty_bytes;
	to->held_bytes = to->live_bytes + to->arenas_live_bytes;
	to->other_bytes = mt_sample_other(to);
	if (top && top < from->heap_live_bytes)
		top = from->heap_live_bytes;
	to->outside_bytes = top ? mt_sat_sub(anon + to->swap_bytes, top) : 0;
	if (mt_memory_parts_are_known(from))
		to->slack_bytes = mt_sat_sub(top && top < anon ? top : anon, from->heap_live_bytes);
}

static void fill_gpu(const struct mt_stats_snapshot *from, struct mt_sample *to)
{
	to->gpu_allocated_bytes = from->gpu_allocated_bytes + from->gpu_other_bytes;
	to->gpu_reserved_bytes = from->gpu_reserved_bytes + from->gpu_other_bytes;
	to->gpu_idle_bytes = from->gpu_idle_bytes;
	to->gpu_pinned_bytes = from->gpu_pinned_bytes;
	to->rounds_count = from->rounds_count;
}

/* Many arenas take long to read. Then the last sample's values are used again for a while. */
static void fill_arenas(struct mt_facts *facts, struct mt_sample *to)
{
	uint64_t began = mt_clock_now_ns();
	struct mt_pymalloc arenas;

	if (!facts->has_pymalloc || (facts->arenas_read_ns && !facts->arenas_known))
		return;
	if (facts->samples_count &&
	    began - facts->arenas_read_ns < facts->arenas_cost_ns * ARENAS_SHARE) {
		to->arenas_bytes = to[-1].arenas_bytes;
		to->arenas_live_bytes = to[-1].arenas_live_bytes;
		return;
	}
	facts->arenas_known = mt_pymalloc_read(&facts->process, &arenas);
	facts->arenas_read_ns = mt_clock_now_ns();
	facts->arenas_cost_ns = facts->arenas_read_ns - began;
	to->arenas_bytes = arenas.pools_bytes;
	to->arenas_live_bytes = arenas.live_bytes;
}

static void refresh(struct mt_facts *facts)
{
	struct mt_error_reason why;

	if (facts->silent_count < SILENT_MAX || facts->samples_count % SILENT_STEP == 0)
		facts->silent_count = ask_again(facts) ? 0 : facts->silent_count + 1;
	/* also its cleanups: it may end, and takes its file with it */
	(void)mt_target_read(&facts->process, &facts->last, &why);
}

/* After an exec the figures are those of another program. */
static void note_end(struct mt_facts *facts)
{
	facts->has_exec |= !mt_process_runs(facts->process.pid, facts->process.stack_start);
	facts->ended |= facts->has_exec || !mt_process_is_alive(&facts->process);
}

/* If the process does not reply, its last published values stay, and only /proc is read. */
bool mt_diagnose_sample_now(struct mt_facts *facts, double at_s)
{
	struct mt_sample *to = &facts->samples[facts->samples_count];

	if (facts->ended || facts->samples_count == MT_DIAGNOSE_SAMPLES)
		return false;
	memset(to, 0, sizeof(*to));
	to->at_s = at_s;
	if (facts->awake && !facts->is_one_look)
		refresh(facts);
	note_end(facts);
	if (facts->ended || !read_status(facts, to))
		return false;
	if (facts->asleep) {
		fill_arenas(facts, to);
		to->held_bytes = to->arenas_live_bytes;
	}
	if (facts->awake) {
		fill_arenas(facts, to);
		fill_heap(&facts->last.head.snapshot, to);
		fill_gpu(&facts->last.head.snapshot, to);
	}
	facts->samples_count++;
	return true;
}

#define STEPS       120u /* samples, within the bounds of a step */
#define STEP_MIN_MS 100u
#define STEP_MAX_MS 2000u
#define HISTORY_NS  ((uint64_t)900 * 1000000000u)
/* reserved device memory that is worth a heavy cleanup, which shows whether it is a cache */
#define HEAVY_BYTES (32 * MT_MIB)
/* an awake process publishes every 30 s, and at once when it is asked */
#define OLD_NS    ((uint64_t)35 * 1000000000u)
#define SILENT_NS ((uint64_t)3 * 1000000000u)
/* the sums of a tree: so often, and they take up to one part in so many of the time */
#define TREE_STEPS 48
#define TREE_SHARE 20u
/* after which a working program has allocated again what it uses */
#define RETAKE_MS 1500u

static int by_time(const void *a, const void *b)
{
	double x = ((const struct mt_sample *)a)->at_s, y = ((const struct mt_sample *)b)->at_s;

	return (x > y) - (x < y);
}

/* The last 15 minutes, from the ring of the stats file. The times are the process's own. */
void mt_diagnose_read_history(struct mt_facts *facts)
{
	const struct mt_stats_file *file = &facts->first;
	uint64_t now = file->head.time_ns;

	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample = mt_stats_file_sample(file, i);

		if (!sample->time_ns || sample->time_ns > now || now - sample->time_ns > HISTORY_NS)
			continue;
		facts->history[facts->history_count++] =
			(struct mt_sample){.at_s = -(double)(now - sample->time_ns) / 1e9,
					   .rss_bytes = sample->rss_bytes,
					   .anon_bytes = sample->anon_bytes,
					   .live_bytes = sample->live_bytes,
					   .held_bytes = sample->live_bytes,
					   .other_bytes = sample->rss_bytes - (sample->live_bytes +
									       sample->dirty_bytes),
					   .idle_bytes = sample->idle_bytes,
					   .dirty_bytes = sample->dirty_bytes,
					   .gpu_allocated_bytes = sample->gpu_allocated_bytes,
					   .gpu_reserved_bytes = sample->gpu_reserved_bytes,
					   .rounds_count = sample->rounds_count};
	}
	qsort(facts->history, facts->history_count, sizeof(facts->history[0]), by_time);
}

static void read_tree(struct mt_facts *facts, struct mt_process_tree_sums *out)
{
	struct mt_process_tree tree;
	struct mt_error_reason why;

	if (mt_process_tree_read(facts->process.pid, MT_PROCESS_TREE_MAPPINGS, &tree, &why) !=
	    MT_ERR_OK)
		return;
	facts->tree.known = tree.count > 1;
	facts->tree.count = tree.count;
	facts->tree.forks_count = tree.forks_count;
	*out = tree.sums;
	mt_process_tree_free(&tree);
}

/* Adds the sums of the whole tree at this time, unless the last ones are too recent. */
static void sample_tree(struct mt_facts *facts, double seconds, double at_s)
{
	struct mt_diagnose_tree *to = &facts->tree;
	uint64_t began = mt_clock_now_ns(), since = began - to->read_ns;
	struct mt_process_tree tree;
	struct mt_error_reason why;

	if (to->points_count == MT_DIAGNOSE_TREE_POINTS ||
	    (to->read_ns &&
	     ((double)since < seconds * 1e9 / TREE_STEPS || since < to->cost_ns * TREE_SHARE)) ||
	    mt_process_tree_read(facts->process.pid, MT_PROCESS_TREE_TOTALS, &tree, &why) !=
		    MT_ERR_OK)
		return;
	to->points[to->points_count++] =
		(struct mt_diagnose_tree_point){at_s, tree.sums.pss_bytes, tree.count};
	mt_process_tree_free(&tree);
	to->read_ns = mt_clock_now_ns();
	to->cost_ns = to->read_ns - began;
}

/* The sums at the end are its last point. */
static void end_tree(struct mt_facts *facts)
{
	struct mt_diagnose_tree *to = &facts->tree;

	if (!to->points_count || to->points_count == MT_DIAGNOSE_TREE_POINTS || !to->known ||
	    !facts->samples_count)
		return;
	to->points[to->points_count] = (struct mt_diagnose_tree_point){
		fmax(to->points[to->points_count - 1].at_s, mt_facts_last(facts)->at_s),
		to->last.pss_bytes, to->count};
	to->points_count++;
}

/* What the process has published, with its history; its maps and its environment. */
static enum mt_err read_published(struct mt_facts *facts, struct mt_error_reason *why)
{
	enum mt_err error = mt_target_read(&facts->process, &facts->first, why);

	facts->awake = error == MT_ERR_OK;
	facts->asleep = error == MT_ERR_NOT_AVAILABLE && facts->process.shimmed;
	facts->is_file_refused = error == MT_ERR_INVALID;
	if (!facts->process.shimmed) {
		snprintf(facts->why_not, sizeof(facts->why_not), "it does not carry the shim");
		mt_start_command_say(&facts->process, facts->start_command,
				     sizeof(facts->start_command));
	} else if (facts->asleep) {
		facts->asleep_reason = mt_target_asleep(&facts->process);
		snprintf(facts->why_not, sizeof(facts->why_not), "asleep: %s",
			 mt_target_asleep_text(facts->asleep_reason));
	} else if (error) {
		snprintf(facts->why_not, sizeof(facts->why_not), "%.150s", why->text);
	}
	facts->history_count = 0;
	if (facts->awake) {
		facts->last = facts->first;
		mt_diagnose_read_history(facts);
	}
	mt_diagnose_read_maps(facts);
	return error;
}

/* What the kernel says of its memory and of its limits. */
static void read_limits(struct mt_facts *facts)
{
	struct mt_error_reason why;

	facts->smaps_known = mt_smaps_read_total(&facts->process, &facts->smaps, &why) == MT_ERR_OK;
	facts->limit_known =
		mt_process_limit_find(&facts->process, facts->awake ? &facts->last : NULL,
				      &facts->limit) == MT_ERR_OK;
	mt_diagnose_read_group(facts, &facts->group);
	facts->full_pids_max = facts->asleep ? mt_target_full_pids_max(&facts->process) : 0;
	/* from here on it is printed, and not opened */
	mt_text_clean(facts->limit.source, sizeof(facts->limit.source));
}

/* malloc_trim takes memory from within libc's heaps, and they keep their size, which is all that
 * mallinfo tells. What of them is not resident is free. */
static void read_libc_free(struct mt_facts *facts)
{
	const struct mt_stats_head *head = &facts->last.head;
	uint64_t free_bytes = mt_sat_sub(head->snapshot.heap_mapped_bytes,
					 head->snapshot.heap_live_bytes),
		 absent_bytes;

	if (!facts->awake || strcmp(head->allocator, "glibc") != 0 ||
	    free_bytes < LIBC_FREE_BYTES || !mt_look_heaps_absent(&facts->process, &absent_bytes))
		return;
	facts->libc_free_known = true;
	facts->libc_free_bytes = mt_sat_sub(free_bytes, absent_bytes);
}

enum mt_err mt_diagnose_look(const struct mt_process *process, bool is_cached,
			     struct mt_facts *facts, struct mt_error_reason *why)
{
	const struct mt_stats_head *head = &facts->last.head;
	enum mt_err error;
	uint64_t age_ns;

	facts->process = *process;
	facts->is_one_look = true;
	facts->age_s = mt_process_age_s(process);
	if (!is_cached)
		mt_control_file_refresh(process);
	error = read_published(facts, why);
	(void)mt_diagnose_sample_now(facts, 0);
	age_ns = mt_sat_sub(mt_clock_realtime_ns(), head->time_ns);
	if (facts->awake && (facts->is_stopped || age_ns > (is_cached ? OLD_NS : SILENT_NS)))
		facts->old_ns = age_ns;
	read_limits(facts);
	read_libc_free(facts);
	/* it takes its files with it */
	if (error && !mt_process_is_alive(process))
		error = mt_error_because(why, MT_ERR_UNKNOWN, "the process has ended");
	return error;
}

static void begin(struct mt_facts *facts, const struct mt_diagnose_options *options)
{
	struct mt_error_reason why;

	facts->duration_s = options->seconds;
	mt_control_file_refresh(&facts->process);
	(void)read_published(facts, &why);
	if (!facts->awake)
		return;
	facts->silent_count = !mt_control_file_refresh(&facts->process);
	if (facts->silent_count)
		return;
	read_classes(&facts->process, &facts->classes_first);
	facts->profile = begin_profile(facts);
}

/* ---- the end ---- */

/* Device memory in use a while after the cleanup: a working program allocates again what it uses.
 */
static void sample_later(struct mt_facts *facts)
{
	const struct mt_stats_snapshot *now = &facts->last.head.snapshot;
	struct mt_error_reason why;

	mt_clock_sleep_ms(RETAKE_MS);
	mt_control_file_refresh(&facts->process);
	if (mt_target_read_head(&facts->process, &facts->last.head, &why) == MT_ERR_OK &&
	    now->gpu_total_bytes > now->gpu_free_bytes)
		facts->trim.gpu_later_bytes = now->gpu_total_bytes - now->gpu_free_bytes;
}

/* Whether the collection that the test trim asked for has run after it. */
static bool has_collected_late(const struct mt_facts *facts)
{
	struct mt_cleanup_entry *entries =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*entries)));
	size_t count = mt_cleanup_history(&facts->last, entries);
	bool is_so = false;

	for (size_t i = 0; facts->trim.done && i < count; i++)
		if (entries[i].cleanup->number == facts->trim.record.number)
			is_so = entries[i].late != NULL;
	free(entries);
	return is_so;
}

static void end(struct mt_facts *facts, const struct mt_diagnose_options *options)
{
	struct mt_error_reason why;
	enum mt_level level;

	note_end(facts);
	facts->age_s = mt_process_age_s(&facts->process);
	if (facts->ended) {
		end_profile(facts, facts->profile);
		return;
	}
	read_limits(facts);
	if (!facts->awake)
		return;
	/* each request would wait in full, half a minute together, with the others of a tree after
	 * it */
	if (facts->silent_count && !mt_control_file_refresh(&facts->process)) {
		snprintf(facts->trim.why_not, sizeof(facts->trim.why_not), "%s",
			 mt_facts_silence(facts));
		facts->trim.requested = options->trim;
		end_profile(facts, facts->profile);
		return;
	}
	facts->silent_count = 0;
	read_classes(&facts->process, &facts->classes_last);
	level = facts->is_python && !options->gc ? MT_LEVEL_PURGE
		: mt_stats_file_uses_cuda(&facts->last.head) &&
				mt_facts_last(facts)->gpu_reserved_bytes >= HEAVY_BYTES
			? MT_LEVEL_HEAVY
			: MT_LEVEL_LIGHT;
	if (options->trim)
		trim_now(&facts->process, level, &facts->trim);
	if (options->trim && level == MT_LEVEL_HEAVY)
		sample_later(facts);
	end_profile(facts, facts->profile);
	(void)mt_target_read(&facts->process, &facts->last, &why);
	read_libc_free(facts);
	facts->trim.has_collected_late = has_collected_late(facts);
}

/* ---- the samples ---- */

static void print_progress(const struct mt_facts *facts, size_t count, double passed_s)
{
	char many[48] = "";

	if (!isatty(STDERR_FILENO) || !facts->samples_count)
		return;
	if (count > 1)
		snprintf(many, sizeof(many), " %zu processes", count);
	fprintf(stderr, "\rsampling%s: %.0f of %.0f s, RSS %s, live %s (Ctrl-C ends it early) ",
		many, passed_s, facts->duration_s,
		mt_text_bytes(mt_facts_last(facts)->rss_bytes).text,
		mt_text_bytes(mt_facts_last(facts)->held_bytes).text);
	fflush(stderr);
}

static uint64_t step_ns(double seconds)
{
	double step = seconds * 1000 / STEPS, room = seconds * 1000 / (MT_DIAGNOSE_SAMPLES - 2);

	step = step < STEP_MIN_MS ? STEP_MIN_MS : step > STEP_MAX_MS ? STEP_MAX_MS : step;
	return (uint64_t)((step > room ? step : room) * 1e6);
}

/* A process that wakes up meanwhile is sampled from there on: nobody has counted what it held
 * before. */
static void try_to_wake(struct mt_facts *facts, const struct mt_diagnose_options *options)
{
	if (facts->awake || facts->ended || !facts->process.shimmed)
		return;
	begin(facts, options);
	facts->has_woken = facts->awake;
	if (facts->awake)
		facts->samples_count = facts->history_count = 0;
}

static bool sample_all(struct mt_facts *const *list, size_t count,
		       const struct mt_diagnose_options *options, uint64_t began_ns)
{
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		try_to_wake(list[i], options);
		any |= mt_diagnose_sample_now(list[i],
					      (double)(mt_clock_now_ns() - began_ns) / 1e9);
	}
	return any;
}

static void sample_until_end(struct mt_facts *const *list, size_t count,
			     const struct mt_diagnose_options *options,
			     const volatile sig_atomic_t *stop)
{
	uint64_t began = mt_clock_now_ns(), until = began + (uint64_t)(options->seconds * 1e9),
		 now = began;

	for (uint64_t next = began; !*stop && now <= until; next += step_ns(options->seconds)) {
		now = mt_clock_now_ns();
		if (next > now)
			mt_clock_sleep_ms((unsigned)((next - now) / 1000000u));
		if (*stop || !sample_all(list, count, options, began))
			break;
		if (options->tree)
			sample_tree(list[0], options->seconds,
				    (double)(mt_clock_now_ns() - began) / 1e9);
		now = mt_clock_now_ns();
		print_progress(list[0], count, (double)(now - began) / 1e9);
	}
}

void mt_diagnose_collect(struct mt_facts *const *list, size_t count,
			 const struct mt_diagnose_options *options,
			 const volatile sig_atomic_t *stop)
{
	for (size_t i = 0; i < count; i++)
		begin(list[i], options);
	read_tree(list[0], &list[0]->tree.first);
	sample_until_end(list, count, options, stop);
	read_tree(list[0], &list[0]->tree.last);
	end_tree(list[0]);
	for (size_t i = 0; i < count; i++) {
		list[i]->interrupted = *stop;
		end(list[i], options);
	}
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}
