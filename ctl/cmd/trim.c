/* ctl/cmd/trim.c -- `mtctl trim`: requests a cleanup from one process, from all, or from a tree,
 * and prints the bytes before and after. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/process_tree.h"
#include "ctl/channel/stats_dir.h"
#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/figures/stats_file.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/process.h"
#include "ctl/process/read_file.h"

/* ---- `mtctl trim --dry-run` ---- */

static void add_json(json_t *array, const struct mt_process *process,
		     const struct mt_stats_snapshot *now)
{
	json_t *object = mt_process_json(process);
	bool is_known = now && mt_memory_parts_are_known(now);

	if (now) {
		mt_json_set_u64(object, "rss_bytes", now->rss_bytes);
		mt_json_set_u64_if(object, "heap_live_bytes", is_known, now->heap_live_bytes);
		mt_json_set_u64_if(object, "heap_dirty_bytes", is_known, now->heap_dirty_bytes);
		mt_json_set_u64(object, "gpu_idle_bytes", now->gpu_idle_bytes);
	} else {
		mt_json_set_text(object, "state", "asleep");
	}
	mt_json_append(array, object);
}

/* now NULL: it is asleep. */
static void add_row(struct mt_table *table, const struct mt_process *process,
		    const struct mt_stats_snapshot *now)
{
	uint64_t rss_bytes = now ? now->rss_bytes : process->rss_bytes;
	struct mt_memory_parts parts = now ? mt_memory_parts_of_snapshot(now, rss_bytes)
					   : mt_memory_parts_unknown(rss_bytes);
	bool is_known = now && mt_memory_parts_are_known(now);

	mt_table_addf(table, "%d", (int)process->pid);
	mt_table_add_bytes(table, true, rss_bytes);
	mt_table_add_bytes(table, is_known, parts.bytes[MT_PART_LIVE]);
	mt_table_add_bytes(table, is_known, parts.bytes[MT_PART_REUSABLE]);
	mt_table_add_bytes(table, now && now->gpu_idle_bytes, now ? now->gpu_idle_bytes : 0);
	mt_table_addf(table, "%s%.*s", now ? "" : "asleep: ", mt_text_fit(process->command, 72),
		      process->command);
}

/* Prints what each process could return, from fresh figures; no process cleans up. json: the
 * object that is printed at the end, which is filled in; NULL: a table. Returns the highest exit
 * code; a process that is asleep is no error. */
static int trim_preview(const struct mt_process *list, size_t count, uint32_t level, json_t *json)
{
	struct mt_table *table = mt_table_new(">PID|>RSS|>LIVE|>REUSABLE|>GPU IDLE|<COMMAND");
	enum mt_exit worst = MT_EXIT_OK;

	if (json)
		mt_json_set_bool(json, "dry_run", true);
	for (size_t i = 0; i < count; i++) {
		struct mt_stats_head head;
		struct mt_error_reason why;
		enum mt_err error;

		(void)mt_control_file_refresh(&list[i]);
		error = mt_target_read_head(&list[i], &head, &why);
		if (error && error != MT_ERR_NOT_AVAILABLE) {
			enum mt_exit code = mt_target_fail(&list[i], error, &why);

			worst = code > worst ? code : worst;
		} else if (json) {
			add_json(json_object_get(json, "processes"), &list[i],
				 error ? NULL : &head.snapshot);
		} else {
			add_row(table, &list[i], error ? NULL : &head.snapshot);
		}
	}
	if (json) {
		mt_table_free(table);
		return worst;
	}
	mt_table_print(table);
	printf("REUSABLE%s would be returned%s; nothing was changed\n",
	       level == MT_LEVEL_HEAVY ? " and GPU IDLE" : "",
	       level == MT_LEVEL_PURGE ? "" : ", and what Python's gc frees if it is enabled");
	return worst;
}

/* A main thread that has not run for so long waits: the library gives it 0.2 s to come. */
#define WAIT_MS 50u

/* How often the main thread of a process has waited; 0: it runs, or it is not known. */
static uint64_t count_waits(pid_t pid)
{
	char *status = mt_process_read(pid, "status", NULL);
	uint64_t count = 0;

	if (status && strstr(status, "\nState:\tS"))
		(void)mt_read_file_number(status, "voluntary_ctxt_switches", &count);
	free(status);
	return count;
}

/* Finds the last collection, or that the program had it disabled; NULL: none has been. *out_before:
 * the live bytes that it began with, 0: not known. */
static const struct mt_stats_cleanup *last_gc(const struct mt_stats_file *file,
					      uint64_t *out_before)
{
	struct mt_cleanup_entry entries[MT_CLEANUPS_COUNT];

	for (size_t i = mt_cleanup_history(file, entries); i-- > 0;) {
		const struct mt_stats_cleanup *one =
			entries[i].late ? entries[i].late : entries[i].cleanup;

		if (!one->gc_ns && one->gc_state != MT_GC_DISABLED)
			continue;
		/* the record of a late collection begins after it */
		if (entries[i].cleanup->reason != MT_REASON_LATE_GC)
			*out_before = entries[i].cleanup->live_before_bytes;
		return one;
	}
	return NULL;
}

/* Says on stderr what a collection has cost Python's main thread, and what it is expected to cost:
 * as much for each live byte as the last one, else a millisecond for each MB (100 to 170 ms for 125
 * MB of small dicts, CPython 3.11). Only a collection tells whether the program has disabled it.
 * waits: of count_waits, WAIT_MS ago. Costs a read of the stats file. */
static void say_gc(const struct mt_process *process, uint64_t waits, bool dry_run,
		   struct mt_stats_file *file)
{
	const struct mt_stats_cleanup *last;
	struct mt_error_reason why;
	uint64_t live, before = 0, expected_ns;

	if (mt_target_read(process, file, &why) != MT_ERR_OK || !file->head.python)
		return;
	last = last_gc(file, &before);
	if (last && last->gc_state == MT_GC_DISABLED) {
		mt_error_say("process %d (%s): the program had disabled Python's gc when a cleanup "
			     "last asked for it: nothing is collected until it enables it",
			     (int)process->pid, process->comm);
		return;
	}
	if (waits && count_waits(process->pid) == waits) {
		mt_error_say("process %d (%s): Python's main thread waits in a system call: its gc "
			     "collects when that returns, or on another thread that has grown the "
			     "heap; --purge leaves it out",
			     (int)process->pid, process->comm);
		return;
	}
	live = file->head.snapshot.heap_live_bytes;
	expected_ns = before ? (uint64_t)((double)last->gc_ns * (double)live / (double)before)
		      : last && !live ? last->gc_ns
				      : live * 1000000u / 1048576u;
	mt_error_say("process %d (%s): Python's main thread %s while its gc collects: %s%s, "
		     "%s%s is expected; --purge leaves it out, and so does the library if "
		     "forked processes share many of its pages, or if the program has disabled it",
		     (int)process->pid, process->comm, dry_run ? "would stand" : "stands",
		     last ? "the last collection took " : "none has run yet",
		     last ? mt_text_ns(last->gc_ns).text : "",
		     expected_ns ? "about "
				 : "its allocator does not count live bytes: no duration",
		     expected_ns ? mt_text_ns(expected_ns).text : "");
}

struct trim {
	bool all, all_users, check, dry_run;
	struct mt_option_tree tree;
	uint32_t level;
	uint64_t timeout_ms;
	json_t *json; /* the object that is printed at the end; NULL: text */
};

static void add_layer(struct mt_table *table, const char *layer, uint64_t before, uint64_t after)
{
	mt_table_add_row(table, layer, mt_text_bytes(before).text, mt_text_bytes(after).text,
			 mt_text_change(before, after).text, NULL);
}

static void print_gc(const struct mt_stats_cleanup *cleanup)
{
	if (cleanup->gc_state == MT_GC_DONE)
		printf("  gc collected %s in %s\n",
		       mt_text_counted(cleanup->gc_collected_count, "object", "objects").text,
		       mt_text_ns(cleanup->gc_ns).text);
	else if (cleanup->gc_state == MT_GC_DISABLED)
		puts("  gc is disabled by the program");
	else if (cleanup->gc_state == MT_GC_LATE)
		puts("  gc is late: the main thread is busy outside Python, or collecting takes "
		     "long; a cleanup follows it");
	else if (cleanup->gc_state == MT_GC_BLOCKED)
		puts("  gc waits: the main thread is in a system call; it collects when that "
		     "returns, or after 2 s on another thread if others have grown the heap");
	else if (cleanup->gc_state == MT_GC_SHARED)
		puts("  gc is left out: it would copy memory that is shared with forked processes");
}

/* The caches that were emptied, or why none was. */
static void print_gpu(const struct mt_stats_cleanup *cleanup)
{
	const char *word;
	uint32_t bit;

	if (cleanup->gpu_state == MT_GPU_CAPTURING)
		puts("  GPU caches left alone: a stream captures into a graph");
	else if (cleanup->gpu_state == MT_GPU_RANKS)
		puts("  GPU caches left alone: other ranks would have to wait");
	if (cleanup->gpu_state != MT_GPU_DONE)
		return;
	fputs("  GPU caches emptied: the pool's and the driver's", stdout);
	for (size_t i = 0; (word = mt_stats_word_framework(i, &bit)); i++)
		if (cleanup->frameworks & bit)
			printf(", %s", word);
	putchar('\n');
}

static void print_cleanup(const struct mt_process *process, const struct mt_stats_cleanup *cleanup)
{
	struct mt_table *table = mt_table_new("<|>BEFORE|>AFTER|>CHANGE");

	printf("process %d (%s): %s cleanup, %s, %s\n", (int)process->pid, process->comm,
	       mt_stats_word_level(cleanup->level), mt_stats_word_outcome(cleanup),
	       mt_text_ns(mt_cleanup_cost_ns(cleanup)).text);
	add_layer(table, "  RSS", cleanup->rss_before_bytes, cleanup->rss_after_bytes);
	add_layer(table, "  RssAnon", cleanup->anon_before_bytes, cleanup->anon_after_bytes);
	if (cleanup->live_before_bytes)
		add_layer(table, "  heap live", cleanup->live_before_bytes,
			  cleanup->live_after_bytes);
	if (cleanup->gpu_before_bytes)
		add_layer(table, "  GPU in use", cleanup->gpu_before_bytes,
			  cleanup->gpu_after_bytes);
	if (cleanup->pinned_before_bytes)
		add_layer(table, "  page-locked", cleanup->pinned_before_bytes,
			  cleanup->pinned_after_bytes);
	mt_table_print(table);
	if (cleanup->live_after_bytes > cleanup->rss_after_bytes)
		puts("  live exceeds RSS: pages of live blocks that were never written to, or are "
		     "swapped out, are not resident");
	print_gc(cleanup);
	print_gpu(cleanup);
}

/* Prints the result of one process. Returns its exit code. */
static int finish_one(const struct trim *trim, const struct mt_process *process,
		      const struct mt_trim_reply *reply)
{
	const char *error_text = mt_trim_reply_error(reply);

	if (trim->json)
		mt_json_append(json_object_get(trim->json, "processes"),
			       mt_trim_json_reply(process, reply));
	if (error_text)
		mt_process_say(process, error_text);
	else if (reply->error && !trim->json)
		printf("process %d (%s): asleep: %s\n", (int)process->pid, process->comm,
		       mt_target_asleep_text(mt_target_asleep(process)));
	else if (!reply->error && !trim->json)
		print_cleanup(process, &reply->cleanup);
	if (mt_trim_reply_exit(reply) == MT_EXIT_OK && trim->check && reply->cleanup.result != 1)
		return MT_EXIT_NOTHING;
	return mt_trim_reply_exit(reply);
}

/* The exit code of several processes: of named ones the highest, as `set` has it; of others 0 if
 * any has done it, else the highest. So it is for --check if no process has failed. */
static int combine_codes(const struct trim *trim, int code, int other)
{
	int highest = code > other ? code : other;
	bool is_named = !trim->all && !trim->all_users && !trim->tree.is_wanted;

	if (is_named && (!trim->check || highest > MT_EXIT_NOTHING))
		return highest;
	return code == MT_EXIT_OK || other == MT_EXIT_OK ? MT_EXIT_OK : highest;
}

static void say_all_gc(const struct trim *trim, const struct mt_process *list, size_t count)
{
	struct mt_stats_file *file = mt_error_check_memory(malloc(sizeof(*file)));
	uint64_t *waits = mt_error_check_memory(calloc(count, sizeof(*waits)));
	struct mt_error_reason why;
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		if (!mt_target_read_head(&list[i], &file->head, &why) && file->head.python)
			waits[i] = count_waits(list[i].pid);
		any |= waits[i] != 0;
	}
	if (any)
		mt_clock_sleep_ms(WAIT_MS);
	for (size_t i = 0; i < count; i++)
		say_gc(&list[i], waits[i], trim->dry_run, file);
	free(waits);
	free(file);
}

static int trim_all(const struct trim *trim, const struct mt_process *list, size_t count)
{
	struct mt_trim_requests *requests;
	int code = MT_EXIT_OK;

	if (trim->level != MT_LEVEL_PURGE)
		say_all_gc(trim, list, count);
	if (trim->dry_run)
		return trim_preview(list, count, trim->level, trim->json);
	requests = mt_trim_requests_new(list, count, trim->level, trim->timeout_ms);

	for (size_t i = 0; i < count; i++) {
		int one = finish_one(trim, &list[i], mt_trim_requests_wait(requests, i));

		code = i ? combine_codes(trim, one, code) : one;
	}
	mt_trim_requests_free(requests);
	return code;
}

/* Keeps the shimmed processes of the list: below `root`, or (0) those that mtctl shows, with
 * own_only of the calling user alone. */
static size_t choose(struct mt_process *list, size_t count, pid_t root, bool own_only)
{
	struct mt_process *copy = mt_error_check_memory(calloc(count + 1, sizeof(*copy)));
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (list[i].shimmed && (!own_only || list[i].uid == geteuid()) &&
		    (root ? mt_ancestry_descends(list, count, list[i].pid, root)
			  : mt_stats_dir_is_shown(&list[i])))
			copy[kept++] = list[i];
	for (size_t i = 0; i < kept; i++)
		list[i] = copy[i];
	free(copy);
	return kept;
}

static int trim_many(const struct trim *trim, pid_t root)
{
	struct mt_process *list;
	size_t count = mt_process_read_all(&list), kept = choose(list, count, root, trim->all);
	int code = root ? MT_EXIT_NOT_SHIMMED : MT_EXIT_NO_PROCESS;

	if (!root)
		mt_stats_dir_sweep(list, kept);
	if (kept)
		code = trim_all(trim, list, kept);
	else if (root)
		mt_error_say("neither process %d nor any that descends from it carries the shim",
			     (int)root);
	else
		mt_error_say("no process %scarries the shim", trim->all ? "of yours " : "");
	free(list);
	return code;
}

static void print_total(const struct mt_process_tree *before, const struct mt_process_tree *after)
{
	printf("the whole tree: PSS %s -> %s (%s), %s", mt_text_bytes(before->sums.pss_bytes).text,
	       mt_text_bytes(after->sums.pss_bytes).text,
	       mt_text_change(before->sums.pss_bytes, after->sums.pss_bytes).text,
	       mt_text_counted(before->count, "process", "processes").text);
	if (after->count != before->count)
		printf(" -> %s", mt_text_count(after->count).text);
	if (before->unknown_count || after->unknown_count)
		printf(", without %s that may not be looked into",
		       mt_text_count(after->unknown_count).text);
	putchar('\n');
}

/* a read of the tree may take this part of the timeout, once before the requests and once after
 * them */
#define FIGURES_SHARE 4

/* Reads the tree before and after all requests: a shared page is freed when the last process has
 * returned it. */
static int trim_tree(const struct trim *trim, pid_t root)
{
	const uint64_t figures_ns = trim->timeout_ms * 1000000u / FIGURES_SHARE;
	struct mt_process_tree before = {0}, after = {0};
	struct mt_error_reason why;
	bool known;
	int code;

	mt_process_smaps_until(mt_clock_now_ns() + figures_ns);
	known = mt_process_tree_read(root, MT_PROCESS_TREE_TOTALS, &before, &why) == MT_ERR_OK;
	code = trim_many(trim, root);
	mt_process_smaps_until(mt_clock_now_ns() + figures_ns);
	known = known && code != MT_EXIT_NOT_SHIMMED && !trim->dry_run &&
		mt_process_tree_read(root, MT_PROCESS_TREE_TOTALS, &after, &why) == MT_ERR_OK;
	if (known && trim->json) {
		mt_json_set(trim->json, "before", mt_process_tree_sums_json(&before));
		mt_json_set(trim->json, "after", mt_process_tree_sums_json(&after));
	} else if (known) {
		print_total(&before, &after);
	}
	mt_process_smaps_until(UINT64_MAX);
	mt_process_tree_free(&before);
	mt_process_tree_free(&after);
	return code;
}

static int trim_named(const struct trim *trim, char **words, size_t count)
{
	struct mt_process *list;
	size_t list_count;
	int code = mt_target_find_all(words, count, &list, &list_count);

	if (code != MT_EXIT_OK)
		return code;
	code = trim_all(trim, list, list_count);
	free(list);
	return code;
}

static int run(const struct trim *trim, char **words, size_t count)
{
	pid_t root = 0;
	int code;

	if (trim->all || trim->all_users)
		return trim_many(trim, 0);
	if (!trim->tree.is_wanted)
		return trim_named(trim, words, count);
	code = mt_target_choose(trim->tree.pid ? trim->tree.pid : words[0], true, &root);
	return code == MT_EXIT_OK ? trim_tree(trim, root) : code;
}

/* A PID, or several; --tree takes one, which may also be its value; the others take none. */
static bool is_wrong_use(const struct trim *trim, int operands)
{
	bool everybody = trim->all || trim->all_users;

	if (trim->all + trim->all_users + trim->tree.is_wanted > 1)
		return true;
	if (everybody || trim->tree.is_wanted)
		return operands != (!everybody && !trim->tree.pid);
	return operands < 1;
}

int mt_command_trim(int argc, char **argv)
{
	struct trim trim = {.timeout_ms = MT_TRIM_TIMEOUT_MS};
	bool light = false, heavy = false, purge = false, json = false;
	const struct mt_option options[] = {{.name = "all", .target = &trim.all},
					    {.name = "all-users", .target = &trim.all_users},
					    {.name = "check", .target = &trim.check},
					    {.name = "dry-run", .target = &trim.dry_run},
					    {.name = "light", .target = &light},
					    {.name = "heavy", .target = &heavy},
					    {.name = "purge", .target = &purge},
					    {.name = "json", .target = &json},
					    {.name = "timeout",
					     .target = &trim.timeout_ms,
					     .take = mt_option_ms,
					     .letter = 't'},
					    {.name = "tree",
					     .target = &trim.tree,
					     .take = mt_option_take_tree,
					     .value_optional = true},
					    {0}};
	const struct mt_command_line line = {"trim", NULL, options, 0, MT_OPERANDS_MAX};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (is_wrong_use(&trim, argc - optind) || (trim.check && trim.dry_run) ||
	    light + heavy + purge > 1)
		return mt_command_misused("trim");
	trim.level = purge ? MT_LEVEL_PURGE : light ? MT_LEVEL_LIGHT : MT_LEVEL_HEAVY;
	if (json) {
		trim.json = json_object();
		mt_json_set(trim.json, "processes", json_array());
	}
	code = run(&trim, &argv[optind], (size_t)(argc - optind));
	if (trim.json && json_array_size(json_object_get(trim.json, "processes")))
		mt_json_print(trim.json, true);
	return code;
}
