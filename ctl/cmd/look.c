/* ctl/cmd/look.c -- `mtctl look`: what /proc tells of a process without the shim. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/look.h"
#include "ctl/process/preload.h"
#include "ctl/process/remote_python.h"

/* What malloc_trim(3) would return, as far as it can be told from outside. */
struct mt_look_trim {
	bool is_glibc;       /* false: malloc_trim does not exist, or does nothing */
	uint64_t most_bytes; /* no more than this */
	char text[400];
};

static void describe_trim(const struct mt_look *look, struct mt_look_trim *out)
{
	uint64_t heap = look->brk_bytes + look->arenas_bytes;
	bool is_glibc = look->how == MT_LOOK_LIBC && strcmp(look->allocator, "glibc") == 0;

	*out = (struct mt_look_trim){.is_glibc = is_glibc, .most_bytes = is_glibc ? heap : 0};
	if (look->is_go)
		snprintf(out->text, sizeof(out->text),
			 "nothing: Go has a heap of its own, and returns memory itself");
	else if (strcmp(look->allocator_file, MT_SHIM_NAME) == 0)
		snprintf(out->text, sizeof(out->text),
			 "nothing by malloc_trim, which is glibc's: `mtctl trim %d` purges the "
			 "shim's jemalloc, and `mtctl stat %d` says how much is reusable",
			 (int)look->process.pid, (int)look->process.pid);
	else if (look->how == MT_LOOK_STATIC || look->how == MT_LOOK_ASLEEP)
		snprintf(out->text, sizeof(out->text),
			 "cannot be told, since the maps do not name its allocator");
	else if (!is_glibc)
		snprintf(out->text, sizeof(out->text),
			 "nothing: malloc_trim is glibc's, and %s serves malloc",
			 look->allocator[0] ? look->allocator : "an allocator without a name here");
	else
		snprintf(
			out->text, sizeof(out->text),
			"0 to %s: glibc keeps its lists of free blocks in the process, so that "
			"what of its heaps is free cannot be told from outside. Large blocks (from "
			"128 kB, up to 32 MB) are mapped one by one and go back when they are "
			"freed%s",
			mt_text_bytes(heap).text,
			look->arenas_known && look->arenas.pools_count
				? ". It does not reach Python's pools; under the shim their free "
				  "pages go back"
				: "");
}

/* Why the shim would do nothing in this program; NULL: nothing speaks against it. */
static const char *look_obstacle(const struct mt_look *look)
{
	if (look->process.shimmed)
		return look->is_off ? mt_target_asleep_text(MT_ASLEEP_OFF)
				    : "it carries the shim already";
	if (look->obstacle != MT_OBSTACLE_NONE)
		return mt_obstacle_text(look->obstacle);
	return NULL;
}

/* Below it a cleanup is not worth a restart: the shim sleeps up to so much (MT_MIN_MB). */
#define REACH_MIN_BYTES ((uint64_t)16 << 20)

/* Whether the shim could return memory of this process. */
struct mt_look_candidate {
	const char *verdict;  /* "likely", "perhaps", "unlikely", "no" */
	uint64_t reach_bytes; /* resident memory that malloc may have handed out; 0 for "no" */
	char text[320];
};

static void describe_candidate(const struct mt_look *look, struct mt_look_candidate *out)
{
	const char *obstacle = look_obstacle(look);
	struct mt_short_text reach, rss = mt_text_bytes(look->total.rss_bytes);
	uint64_t free_bytes = 0;
	int used;

	*out = (struct mt_look_candidate){.verdict = "no"};
	if (!obstacle && look->is_go)
		obstacle = "Go has a heap of its own, and returns memory itself";
	if (obstacle) {
		snprintf(out->text, sizeof(out->text), "%s", obstacle);
		return;
	}
	out->reach_bytes = look->brk_bytes + look->arenas_bytes + look->mapped_bytes;
	reach = mt_text_bytes(out->reach_bytes);
	if (look->arenas_known && look->arenas.pools_bytes > look->arenas.live_bytes)
		free_bytes = look->arenas.pools_bytes - look->arenas.live_bytes;
	out->verdict = out->reach_bytes < REACH_MIN_BYTES ? "unlikely"
		       : look->how == MT_LOOK_LIBC        ? "likely"
							  : "perhaps";
	used = snprintf(out->text, sizeof(out->text),
			"%s of its RSS of %s is memory that malloc may have handed out", reach.text,
			rss.text);
	if (free_bytes)
		used += snprintf(out->text + used, sizeof(out->text) - (size_t)used,
				 ", and %s in Python's pools is free now",
				 mt_text_bytes(free_bytes).text);
	if (look->how != MT_LOOK_LIBC)
		snprintf(out->text + used, sizeof(out->text) - (size_t)used,
			 "; %s serves malloc, and the shim has it purge",
			 look->allocator[0] ? look->allocator : "an unknown allocator");
}

/* ---- text ---- */

static void print_title(const char *title)
{
	printf("\n%s  %s%s\n", mt_table_colour(MT_COLOUR_HEAD), title, mt_table_colour_end());
}

static void print_parts(const struct mt_look *look)
{
	static const struct {
		const char *label;
		size_t offset;
	} rows[] = {
#define X(name, label) {label, offsetof(struct mt_look, name##_bytes)},
		MT_LOOK_PARTS(X)
#undef X
	};
	uint64_t rss = look->total.rss_bytes;
	struct mt_table *table = mt_table_new("<  RSS|>BYTES|>SHARE");

	putchar('\n');
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t bytes;

		memcpy(&bytes, (const char *)look + rows[i].offset, sizeof(bytes));
		if (!bytes)
			continue;
		mt_table_addf(table, "  %s", rows[i].label);
		mt_table_add(table, mt_text_bytes(bytes).text);
		mt_table_addf(table, "%.0f %%", rss ? 100 * (double)bytes / (double)rss : 0);
	}
	mt_table_add(table, "  all");
	mt_table_add(table, mt_text_bytes(rss).text);
	mt_table_add(table, "");
	mt_table_print(table);
	printf("  Anonymous %s; peak of RSS %s", mt_text_bytes(look->anon_bytes).text,
	       mt_text_bytes(look->rss_peak_bytes).text);
	if (look->total.swap_bytes)
		printf("; %s swapped out", mt_text_bytes(look->total.swap_bytes).text);
	if (look->total.huge_bytes)
		printf("; %s in huge pages", mt_text_bytes(look->total.huge_bytes).text);
	if (look->total.locked_bytes)
		printf("; %s locked", mt_text_bytes(look->total.locked_bytes).text);
	puts(".");
}

static void print_allocator(const struct mt_look *look)
{
	print_title("ALLOCATOR");
	switch (look->how) {
	case MT_LOOK_LIBRARY:
		printf("  %s (%s is mapped)\n", look->allocator, look->allocator_file);
		break;
	case MT_LOOK_IN_FILE:
		printf("  %s, linked into the program (its texts are in the file)\n",
		       look->allocator);
		break;
	case MT_LOOK_LIBC:
		printf("  %s (%s)\n", look->allocator,
		       look->allocator_file[0] ? look->allocator_file : "libc");
		break;
	case MT_LOOK_ASLEEP:
		puts("  glibc, the shim's jemalloc or a malloc of the program's own: which, only "
		     "an "
		     "awake process tells");
		break;
	case MT_LOOK_STATIC:
		puts("  cannot be told: the program is linked statically");
		break;
	case MT_LOOK_UNKNOWN:
		puts("  cannot be told: no libc is mapped");
		break;
	}
	if (look->is_go)
		puts("  Go's runtime has a heap of its own, which is in other anonymous memory");
	if (look->how == MT_LOOK_LIBC && strcmp(look->allocator, "glibc") == 0)
		printf("  %s; heaps of further arenas, as far as the maps tell: %" PRIu64
		       " (%s resident)\n",
		       mt_text_counted(look->threads_count, "thread", "threads").text,
		       look->arena_heaps_count, mt_text_bytes(look->arenas_bytes).text);
}

static void print_python(const struct mt_look *look)
{
	if (!look->is_python)
		return;
	printf("  Python%s%s, PYTHONMALLOC %s%s", look->python_version[0] ? " " : "",
	       look->python_version, look->python_malloc[0] ? "= " : "is not set",
	       look->python_malloc);
	if (look->arenas_known && look->arenas.pools_count)
		printf(": %s in the pools of its own allocator, %s of it live",
		       mt_text_bytes(look->arenas.pools_bytes).text,
		       mt_text_bytes(look->arenas.live_bytes).text);
	else if (!look->arenas_known)
		printf(": what its own allocator holds cannot be read");
	putchar('\n');
}

static void print_limits(const struct mt_look *look)
{
	print_title("LIMITS");
	if (look->limit_known)
		printf("  %s of %s used, %.0f %% (%s)\n",
		       mt_text_bytes(look->limit.used_bytes).text,
		       mt_text_bytes(look->limit.limit_bytes).text, mt_limit_percent(&look->limit),
		       look->limit.is_cgroup ? look->limit.source : "the whole machine");
	else
		puts("  no limit can be read");
#define X(name, word)                                                                              \
	if (look->rlimits.name##_bytes != UINT64_MAX)                                              \
		printf("  %s %s (ulimit)\n", word, mt_text_bytes(look->rlimits.name##_bytes).text);
	MT_LOOK_RLIMITS(X)
#undef X
}

static void print_start(const struct mt_look *look)
{
	const char *obstacle = look_obstacle(look);
	char library[PATH_MAX];
	struct mt_error_reason why;

	print_title("START IT UNDER THE SHIM");
	if (look->process.shimmed && !look->is_off) {
		printf("  It carries the shim: mtctl diagnose %d says more.\n",
		       (int)look->process.pid);
		return;
	}
	if (obstacle) {
		printf("  Not as it is: %s.\n", obstacle);
		return;
	}
	if (look->command[0] == '\'') /* its first word has blanks: it is a title */
		printf("  mtctl run -- %s ...   (it shows a title in the place of its arguments)\n",
		       look->process.comm);
	else
		printf("  mtctl run -- %s%s\n",
		       look->command[0] ? look->command : look->process.comm,
		       look->is_command_cut ? " ...   (cut)" : "");
	if (mt_preload_find(library, sizeof(library), &why) != MT_ERR_OK)
		return;
	if (look->unit[0])
		printf("  Of systemd: systemctl edit %s, and in it\n"
		       "    [Service]\n    Environment=LD_PRELOAD=%s\n",
		       look->unit, library);
	else if (look->container[0])
		printf("  In the image (%s): ENV LD_PRELOAD=%s, with the library copied there\n",
		       look->container, library);
}

static void print_collection(const struct mt_remote_collection *collection)
{
	print_title("PYTHON'S COLLECTION");
	printf("  %s of garbage freed in %s: RSS %s -> %s. The figures above are those after it.\n",
	       mt_text_counted(collection->objects_count, "object", "objects").text,
	       mt_text_ns(collection->took_ns).text,
	       mt_text_bytes(collection->rss_before_bytes).text,
	       mt_text_bytes(collection->rss_after_bytes).text);
}

/* collection: NULL for none. */
static void print_text(const struct mt_look *look, const struct mt_remote_collection *collection)
{
	struct mt_look_candidate candidate;
	struct mt_look_trim trim;

	describe_candidate(look, &candidate);
	printf("process %d (%s) of %s: RSS %s, %s%s\n", (int)look->process.pid, look->process.comm,
	       look->user, mt_text_bytes(look->total.rss_bytes).text,
	       look->process.shimmed ? "carries the shim" : "does not carry the shim",
	       look->is_off ? ", which is off" : "");
	if (!look->process.shimmed)
		printf("A candidate for the shim? %s: %s.\n", candidate.verdict, candidate.text);
	print_parts(look);
	print_allocator(look);
	print_python(look);
	print_limits(look);
	if (collection)
		print_collection(collection);
	describe_trim(look, &trim);
	print_title("WHAT malloc_trim WOULD BRING");
	printf("  %s.\n", trim.text);
	print_start(look);
}

/* ---- look json ---- */

/* `mtctl look --json`. Names of values end with their unit; what is not known or has no limit is
 * null. */

static json_t *parts_json(const struct mt_look *look)
{
	json_t *object = json_object();

#define X(name, label) mt_json_set_u64(object, #name "_bytes", look->name##_bytes);
	MT_LOOK_PARTS(X)
#undef X
	return object;
}

static json_t *allocator_json(const struct mt_look *look)
{
	static const char *const words[] = {"unknown", "asleep", "library",
					    "program", "libc",   "static"};
	json_t *object = json_object();

	mt_json_set_text_or_null(object, "name", look->allocator);
	mt_json_set_text_or_null(object, "file", look->allocator_file);
	mt_json_set_text(object, "found_by", words[look->how]);
	mt_json_set_u64(object, "arena_heaps_count", look->arena_heaps_count);
	return object;
}

static json_t *python_json(const struct mt_look *look)
{
	json_t *object;

	if (!look->is_python)
		return json_null();
	object = json_object();
	mt_json_set_text_or_null(object, "version", look->python_version);
	mt_json_set_text_or_null(object, "pythonmalloc", look->python_malloc);
	mt_json_set_u64_if(object, "pools_bytes", look->arenas_known, look->arenas.pools_bytes);
	mt_json_set_u64_if(object, "live_bytes", look->arenas_known, look->arenas.live_bytes);
	return object;
}

static json_t *limit_json(const struct mt_look *look)
{
	json_t *object;

	if (!look->limit_known)
		return json_null();
	object = json_object();
	mt_json_set_u64(object, "used_bytes", look->limit.used_bytes);
	mt_json_set_u64(object, "limit_bytes", look->limit.limit_bytes);
	mt_json_set_bool(object, "is_cgroup", look->limit.is_cgroup);
	mt_json_set_text_or_null(object, "source", look->limit.source);
	return object;
}

static json_t *rlimits_json(const struct mt_look_rlimits *rlimits)
{
	json_t *object = json_object();

#define X(name, word)                                                                              \
	mt_json_set_u64_if(object, #name "_bytes", rlimits->name##_bytes != UINT64_MAX,            \
			   rlimits->name##_bytes);
	MT_LOOK_RLIMITS(X)
#undef X
	return object;
}

static json_t *trim_json(const struct mt_look *look)
{
	struct mt_look_trim trim;
	json_t *object = json_object();

	describe_trim(look, &trim);
	mt_json_set_u64_if(object, "most_bytes", trim.is_glibc, trim.most_bytes);
	mt_json_set_text(object, "text", trim.text);
	return object;
}

static json_t *candidate_json(const struct mt_look *look)
{
	struct mt_look_candidate candidate;
	json_t *object = json_object();

	describe_candidate(look, &candidate);
	mt_json_set_text(object, "verdict", candidate.verdict);
	mt_json_set_u64(object, "reach_bytes", candidate.reach_bytes);
	mt_json_set_text(object, "text", candidate.text);
	return object;
}

static json_t *start_json(const struct mt_look *look)
{
	const char *obstacle = look_obstacle(look);
	char library[PATH_MAX];
	struct mt_error_reason why;
	bool found = mt_preload_find(library, sizeof(library), &why) == MT_ERR_OK;
	json_t *object = json_object();

	mt_text_clean(library, sizeof(library));
	mt_json_set_text_or_null(object, "command", look->command);
	mt_json_set_bool(object, "command_is_cut", look->is_command_cut);
	mt_json_set_text_or_null(object, "library", found ? library : "");
	mt_json_set_text_or_null(object, "obstacle", obstacle ? obstacle : "");
	mt_json_set_text_or_null(object, "systemd_unit", look->unit);
	mt_json_set_text_or_null(object, "container", look->container);
	return object;
}

static json_t *collection_json(const struct mt_remote_collection *collection)
{
	json_t *object;

	if (!collection)
		return json_null();
	object = json_object();
	mt_json_set_u64(object, "objects_count", collection->objects_count);
	mt_json_set_u64(object, "took_ns", collection->took_ns);
	mt_json_set_u64(object, "rss_before_bytes", collection->rss_before_bytes);
	mt_json_set_u64(object, "rss_after_bytes", collection->rss_after_bytes);
	return object;
}

static void look_print_json(const struct mt_look *look,
			    const struct mt_remote_collection *collection)
{
	json_t *root = mt_process_json(&look->process);

	mt_json_set_text(root, "user", look->user);
	mt_json_set_bool(root, "shimmed", look->process.shimmed);
	mt_json_set_u64(root, "threads_count", look->threads_count);
	mt_json_set_u64(root, "rss_bytes", look->total.rss_bytes);
	mt_json_set_u64(root, "rss_peak_bytes", look->rss_peak_bytes);
	mt_json_set_u64(root, "anon_bytes", look->anon_bytes);
	mt_json_set_u64(root, "swap_bytes", look->total.swap_bytes);
	mt_json_set_u64(root, "huge_bytes", look->total.huge_bytes);
	mt_json_set_u64(root, "locked_bytes", look->total.locked_bytes);
	mt_json_set(root, "candidate", candidate_json(look));
	mt_json_set(root, "parts", parts_json(look));
	mt_json_set(root, "allocator", allocator_json(look));
	mt_json_set(root, "python", python_json(look));
	mt_json_set_bool(root, "is_go", look->is_go);
	mt_json_set(root, "limit", limit_json(look));
	mt_json_set(root, "rlimits", rlimits_json(&look->rlimits));
	mt_json_set(root, "trim", trim_json(look));
	mt_json_set(root, "start", start_json(look));
	mt_json_set(root, "collection", collection_json(collection));
	mt_json_print(root, true);
}

/* `mtctl look --gc`. Returns an exit code. */
static int collect(pid_t pid, struct mt_remote_collection *out)
{
	struct mt_process process;
	struct mt_remote_python remote;
	struct mt_error_reason why;
	enum mt_err error = mt_process_find(pid, &process, &why);

	/* mt_look_read says why */
	if (error)
		return MT_EXIT_OK;
	if (process.shimmed) {
		mt_error_say("process %d (%s) carries the shim: mtctl trim %d collects there",
			     (int)pid, process.comm, (int)pid);
		return MT_EXIT_USAGE;
	}
	error = mt_remote_python_find(&process, &remote, &why);
	if (!error) {
		mt_error_say("process %d (%s): sys.remote_exec() of its Python has its main thread "
			     "collect garbage. That stops the program for some 300 ms for each "
			     "million lists, dicts and instances",
			     (int)pid, process.comm);
		error = mt_remote_python_collect(&remote, out, &why);
	}
	return error ? mt_target_fail(&process, error, &why) : MT_EXIT_OK;
}

int mt_command_look(int argc, char **argv)
{
	bool json = false, gc = false;
	const struct mt_option options[] = {
		{.name = "gc", .target = &gc}, {.name = "json", .target = &json}, {0}};
	const struct mt_command_line line = {"look", NULL, options, 1, 1};
	struct mt_remote_collection collection;
	static struct mt_look look;
	struct mt_error_reason why;
	enum mt_err error;
	pid_t pid;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	code = mt_target_choose(argv[optind], false, &pid);
	if (code == MT_EXIT_OK && gc)
		code = collect(pid, &collection);
	if (code != MT_EXIT_OK)
		return code;
	error = mt_look_read(pid, &look, &why);
	if (error == MT_ERR_FOREIGN)
		return mt_error_fail(MT_EXIT_NOT_PERMITTED, &why);
	if (error)
		return mt_error_fail(mt_error_exit(error), &why);
	(json ? look_print_json : print_text)(&look, gc ? &collection : NULL);
	return MT_EXIT_OK;
}
