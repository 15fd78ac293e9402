/* ctl/cmd/last.c -- `mtctl last`: what filled the memory of a process that the kernel killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/diagnose/recorded.h"
#include "ctl/metrics/recording.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/cleanup_story.h"
#include "ctl/process/last_look.h"
#include "ctl/process/memory_parts.h"
#include "ctl/process/process_name.h"
#include "ctl/process/stats_json.h"

static const char help[] =
	"Lists the processes that were about to meet their memory limit, and what became of them.\n"
	"With a PID, a name or a file: what the last of them held, what had grown in its last\n"
	"minute, where, and the verdict of `mtctl diagnose`. A process writes this down while its\n"
	"limit is near, and removes it when that is over or it ends in order (docs/mtctl.md).\n\n"
	"  -o, --output=FILE.html  the whole report as a page\n"
	"  --dir=DIR               read this folder (default: MT_LAST_DIR, or the user's state\n"
	"                          folder)\n"
	"  --json                  all that is told of each\n"
	"  --remove                remove the files that are shown\n";

#define MINUTE_NS   ((uint64_t)60 * 1000000000u)
#define SITES_SHOWN 5u
#define STACK_MAX   10u
/* Growth of less than this share of the limit tells nothing of what filled it. */
#define GROWTH_SHARE 10

struct wanted {
	const char *output, *dir;
	bool json, remove;
};

/* What may have filled the limit: a part of the process, or what else is charged to its cgroup. */
#define FILLERS(X)                                                                                 \
	X(LIVE, "live", "memory in use by the program")                                            \
	X(REUSABLE, "reusable", "free memory in its allocator")                                    \
	X(FILES, "files", "its mapped files and shared memory")                                    \
	X(OTHER, "other", "its mappings outside of malloc")                                        \
	X(PROCESSES, "processes", "other processes of the cgroup")                                 \
	X(SHMEM, "shared_memory", "files in memory (tmpfs, /dev/shm) that no process has mapped")  \
	X(KERNEL, "kernel", "memory of the kernel, charged to the cgroup")

enum filler {
#define X(id, word, text) FILLER_##id,
	FILLERS(X) FILLER_COUNT
#undef X
};

static const struct {
	const char *word, *text;
} fillers[FILLER_COUNT] = {
#define X(id, word, text) {word, text},
	FILLERS(X)
#undef X
};

/* What is told of one process. */
struct story {
	const struct mt_last_look *look;
	struct mt_memory_parts parts, before; /* at the end, and up to a minute before */
	double seconds;                       /* between the two; 0: there is no sample before */
	enum filler filler;
	uint64_t filler_bytes;
	struct mt_facts *facts;
	struct mt_diagnosis *diagnosis;
};

static const char *fate_word(enum mt_last_fate fate)
{
	static const char *const words[] = {
#define X(name, word, text) word,
		MT_LAST_FATES(X)
#undef X
	};

	return words[fate];
}

static const char *fate_text(enum mt_last_fate fate)
{
	static const char *const texts[] = {
#define X(name, word, text) text,
		MT_LAST_FATES(X)
#undef X
	};

	return texts[fate];
}

static const char *cause_word(uint32_t cause)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_LAST_CAUSES(X)
#undef X
	};

	return words[cause];
}

/* ---- what is told ---- */

/* The oldest sample of the last minute. */
static const struct mt_stats_sample *minute_before(const struct mt_last_file *file)
{
	const struct mt_stats_sample *best = NULL;

	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample = &file->stats.samples[i];

		if (!sample->time_ns || sample->time_ns >= file->head.time_ns ||
		    file->head.time_ns - sample->time_ns > MINUTE_NS)
			continue;
		if (!best || sample->time_ns < best->time_ns)
			best = sample;
	}
	return best;
}

static struct mt_memory_parts parts_at_end(const struct mt_last_file *file)
{
	const struct mt_stats_snapshot *now = &file->stats.head.snapshot;
	const struct mt_memory_figures figures = {
		.rss_bytes = file->head.rss_bytes,
		.anon_bytes = file->head.anon_bytes,
		.live_bytes = now->heap_live_bytes,
		.dirty_bytes = now->heap_dirty_bytes,
	};

	return mt_memory_parts_of(&figures);
}

static uint64_t grown(const struct story *story, enum mt_memory_part part)
{
	return mt_sat_sub(story->parts.bytes[part], story->before.bytes[part]);
}

/* The part that has grown most in the last minute; where nothing has, the largest. */
static void find_filler(struct story *story)
{
	const struct mt_last_head *head = &story->look->file.head;
	uint64_t held[FILLER_COUNT] = {
		[FILLER_PROCESSES] = mt_sat_sub(head->group_anon_bytes, head->anon_bytes),
		[FILLER_SHMEM] = mt_sat_sub(head->group_shmem_bytes, head->shmem_bytes),
		[FILLER_KERNEL] = head->group_kernel_bytes,
	};
	uint64_t most = 0;
	bool by_growth = false;

	_Static_assert(FILLER_OTHER == (enum filler)MT_PART_OTHER, "the parts come first");
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		by_growth |=
			story->seconds > 0 && grown(story, i) > head->limit_bytes / GROWTH_SHARE;
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		held[i] = by_growth ? grown(story, i) : story->parts.bytes[i];
	for (int i = 0; i < (by_growth ? MT_PARTS_COUNT : FILLER_COUNT); i++)
		if (held[i] > most) {
			most = held[i];
			story->filler = i;
		}
	story->filler_bytes = story->filler < (enum filler)MT_PARTS_COUNT
				      ? story->parts.bytes[story->filler]
				      : most;
}

static void tell(const struct mt_last_look *look, struct story *out)
{
	const struct mt_stats_sample *before = minute_before(&look->file);
	struct mt_recording recording;

	*out = (struct story){.look = look, .parts = parts_at_end(&look->file)};
	if (before) {
		out->before = mt_memory_parts_of_sample(before);
		out->seconds = (double)(look->file.head.time_ns - before->time_ns) / 1e9;
	}
	find_filler(out);
	out->facts = mt_error_check_memory(calloc(1, sizeof(*out->facts)));
	out->diagnosis = mt_error_check_memory(calloc(1, sizeof(*out->diagnosis)));
	mt_recording_of_last_look(look, &recording);
	mt_recorded_facts(&recording, out->facts);
	out->facts->last = look->file.stats;
	mt_diagnose_judge(out->facts, out->diagnosis);
	mt_recorded_advise(out->diagnosis);
	mt_recording_free(&recording);
}

static void forget(struct story *story)
{
	free(story->facts);
	free(story->diagnosis);
}

/* ---- text ---- */

static void print_head(const struct mt_last_look *look)
{
	const struct mt_last_head *head = &look->file.head;
	char title[200];

	mt_process_title(head->command, title, sizeof(title));
	printf("%s%s%s (PID %llu) %s%s%s%s\n", mt_table_colour(MT_COLOUR_HEAD), title,
	       mt_table_colour_end(), (unsigned long long)look->file.stats.head.pid,
	       fate_text(look->fate), *look->evidence ? " (" : "", look->evidence,
	       *look->evidence ? ")" : "");
	printf("  seen last at %s: %s of %s used (%s)", mt_text_clock(head->time_ns).text,
	       mt_text_bytes(head->used_bytes).text, mt_text_bytes(head->limit_bytes).text,
	       *head->limit_path ? head->limit_path : "the machine");
	if (head->growth_bytes)
		printf(", growing by %s/s", mt_text_bytes(head->growth_bytes).text);
	putchar('\n');
}

/* Copies the lines of a site, without the code below those of Python, and without repeats. Returns
 * how many. */
static size_t split_site(const struct mt_last_site *site, char *copy, size_t copy_bytes,
			 const char **out)
{
	size_t count = 0, lines_count = 0;
	char *rest = copy, *line;

	snprintf(copy, copy_bytes, "%s", site->text);
	while ((line = strsep(&rest, "\n")) && count < STACK_MAX) {
		bool is_python = !strstr(line, "+0x");

		if ((!is_python && lines_count) || (count && strcmp(out[count - 1], line) == 0))
			continue;
		lines_count += is_python;
		out[count++] = line;
	}
	return count;
}

static void print_filler(const struct story *story)
{
	const struct mt_last_file *file = &story->look->file;
	char copy[sizeof(file->sites[0].text)];
	const char *stack[STACK_MAX];

	printf("  filled by: %s, %s", fillers[story->filler].text,
	       mt_text_bytes(story->filler_bytes).text);
	if (story->filler == FILLER_LIVE && file->head.sites_count &&
	    split_site(&file->sites[0], copy, sizeof(copy), stack))
		printf(", most of it at %s", stack[0]);
	putchar('\n');
}

static void print_parts(const struct story *story)
{
	struct mt_table *table = mt_table_new("<  PART|>BYTES|>CHANGE|<MEANING");

	printf("\nmemory: RSS %s", mt_text_bytes(story->look->file.head.rss_bytes).text);
	if (story->look->file.head.swap_bytes)
		printf(", swap %s", mt_text_bytes(story->look->file.head.swap_bytes).text);
	if (story->seconds > 0)
		printf("; change in the last %.0f s", story->seconds);
	putchar('\n');
	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		char word[32];

		snprintf(word, sizeof(word), "  %s", mt_memory_part_word(i));
		mt_table_add_row(
			table, word, mt_text_bytes(story->parts.bytes[i]).text,
			story->seconds > 0
				? mt_text_change(story->before.bytes[i], story->parts.bytes[i]).text
				: "-",
			mt_memory_part_meaning(i), NULL);
	}
	mt_table_print(table);
}

static void print_sites(const struct mt_last_file *file)
{
	char copy[sizeof(file->sites[0].text)];
	const char *stack[STACK_MAX];

	if (file->head.sites_count)
		puts("\nwhere the heap grew, from half of the limit on");
	for (size_t i = 0; i < file->head.sites_count && i < SITES_SHOWN; i++) {
		const struct mt_last_site *site = &file->sites[i];
		size_t count = split_site(site, copy, sizeof(copy), stack);

		for (size_t k = 0; k < count; k++)
			printf("  %10s  %s%s\n", k ? "" : mt_text_bytes(site->bytes).text,
			       k ? "  called at " : "", stack[k]);
	}
}

static void print_group(const struct mt_last_head *head)
{
	if (head->group_anon_bytes || head->group_file_bytes)
		printf("\nthe cgroup: %s anonymous, %s files and page cache, of that %s shared "
		       "memory",
		       mt_text_bytes(head->group_anon_bytes).text,
		       mt_text_bytes(head->group_file_bytes).text,
		       mt_text_bytes(head->group_shmem_bytes).text);
	if (head->group_kernel_bytes)
		printf(", %s of the kernel", mt_text_bytes(head->group_kernel_bytes).text);
	if (head->group_anon_bytes || head->group_file_bytes)
		putchar('\n');
}

static void print_others(const struct mt_last_file *file)
{
	const struct mt_last_head *head = &file->head;

	if (!head->processes_count)
		return;
	printf("\nothers in it, of %s\n",
	       mt_text_counted(head->processes_total, "process", "processes").text);
	for (size_t i = 0; i < head->processes_count && i < SITES_SHOWN; i++)
		printf("  %-10s %s (PID %llu)\n", mt_text_bytes(file->processes[i].rss_bytes).text,
		       file->processes[i].comm, (unsigned long long)file->processes[i].pid);
}

static void print_verdict(const struct mt_diagnosis *diagnosis)
{
	const struct mt_finding *finding = &diagnosis->list[0];

	printf("\nverdict: %s, %s\n", mt_diagnose_word(finding->verdict), finding->text);
	for (size_t i = 0; i < finding->advice_count; i++)
		printf("  - %s\n", finding->advice[i]);
}

static void print_cleanups(const struct mt_stats_file *stats)
{
	uint64_t number = stats->head.cleanups_count;
	const struct mt_stats_cleanup *cleanup = mt_stats_file_cleanup(stats, number);

	if (!cleanup)
		return;
	printf("\ncleanups: %llu, the last at %s (%s): %s\n", (unsigned long long)number,
	       mt_text_clock(cleanup->time_ns).text, mt_stats_word_reason(cleanup->reason),
	       mt_text_change(cleanup->rss_before_bytes, cleanup->rss_after_bytes).text);
}

static void print_story(const struct story *story)
{
	const struct mt_last_file *file = &story->look->file;

	print_head(story->look);
	print_filler(story);
	print_parts(story);
	print_sites(file);
	print_group(&file->head);
	print_others(file);
	print_cleanups(&file->stats);
	print_verdict(story->diagnosis);
	printf("\nThe whole report: mtctl last %s -o report.html\n", story->look->path);
}

/* ---- JSON ---- */

static json_t *sites_json(const struct mt_last_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < file->head.sites_count; i++) {
		json_t *site = json_object(), *lines = json_array();
		char text[sizeof(file->sites[i].text)], *rest = text, *line;

		memcpy(text, file->sites[i].text, sizeof(text));
		while ((line = strsep(&rest, "\n")))
			mt_json_append(lines, json_string(line));
		mt_json_set_u64(site, "bytes", file->sites[i].bytes);
		mt_json_set_u64(site, "largest_bytes", file->sites[i].largest_bytes);
		mt_json_set_u64(site, "growths_count", file->sites[i].count);
		mt_json_set(site, "stack", lines);
		mt_json_append(array, site);
	}
	return array;
}

static json_t *others_json(const struct mt_last_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < file->head.processes_count; i++) {
		json_t *process = json_object();

		mt_json_set_u64(process, "pid", file->processes[i].pid);
		mt_json_set_text(process, "comm", file->processes[i].comm);
		mt_json_set_u64(process, "rss_bytes", file->processes[i].rss_bytes);
		mt_json_append(array, process);
	}
	return array;
}

#define HEAD_FIGURES(X)                                                                            \
	X(time_ns)                                                                                 \
	X(used_bytes)                                                                              \
	X(limit_bytes)                                                                             \
	X(growth_bytes)                                                                            \
	X(rss_bytes)                                                                               \
	X(anon_bytes)                                                                              \
	X(shmem_bytes)                                                                             \
	X(swap_bytes)                                                                              \
	X(group_anon_bytes)                                                                        \
	X(group_file_bytes)                                                                        \
	X(group_shmem_bytes)                                                                       \
	X(group_kernel_bytes)                                                                      \
	X(writes_count)                                                                            \
	X(compose_ns)

static void set_head(const struct mt_last_look *look, json_t *object)
{
	const struct mt_last_head *head = &look->file.head;

	mt_json_set_text(object, "path", look->path);
	mt_json_set_u64(object, "pid", look->file.stats.head.pid);
	mt_json_set_text(object, "comm", look->file.stats.head.comm);
	mt_json_set_text(object, "command", head->command);
	mt_json_set_text(object, "fate", fate_word(look->fate));
	mt_json_set_text_or_null(object, "evidence", look->evidence);
	mt_json_set_text(object, "cause", cause_word(head->cause));
	mt_json_set_text_or_null(object, "limit_source", head->limit_path);
#define X(name) mt_json_set_u64(object, #name, head->name);
	HEAD_FIGURES(X)
#undef X
}

static json_t *story_json(const struct story *story)
{
	const struct mt_last_file *file = &story->look->file;
	const struct mt_finding *finding = &story->diagnosis->list[0];
	json_t *object = json_object();

	set_head(story->look, object);
	mt_json_set_text(object, "filled_by", fillers[story->filler].word);
	mt_json_set_u64(object, "filled_bytes", story->filler_bytes);
	mt_json_set(object, "parts", mt_memory_parts_json(&story->parts));
	mt_json_set(object, "parts_before",
		    story->seconds > 0 ? mt_memory_parts_json(&story->before) : json_null());
	mt_json_set(object, "before_s", json_real(story->seconds));
	mt_json_set(object, "sites", sites_json(file));
	mt_json_set_u64(object, "unknown_bytes", file->head.unknown_bytes);
	mt_json_set(object, "others", others_json(file));
	mt_json_set_u64(object, "processes_count", file->head.processes_total);
	mt_json_set_text(object, "verdict", mt_diagnose_word(finding->verdict));
	mt_json_set_text(object, "title", finding->text);
	return object;
}

static void print_json(const struct mt_last_look *looks, size_t count)
{
	json_t *root = json_object(), *array = json_array();

	for (size_t i = 0; i < count; i++) {
		struct story story;

		tell(&looks[i], &story);
		mt_json_append(array, story_json(&story));
		forget(&story);
	}
	mt_json_set(root, "processes", array);
	mt_json_print(root, false);
}

/* ---- the command ---- */

static void print_list(const struct mt_last_look *looks, size_t count)
{
	struct mt_table *table = mt_table_new("<TIME|>PID|<PROGRAM|>RSS|>USED|>LIMIT|<FATE");
	char title[200];

	for (size_t i = 0; i < count; i++) {
		const struct mt_last_head *head = &looks[i].file.head;

		mt_process_title(head->command, title, sizeof(title));
		mt_table_add(table, mt_text_clock(head->time_ns).text);
		mt_table_addf(table, "%llu", (unsigned long long)looks[i].file.stats.head.pid);
		mt_table_addf(table, "%.40s", title);
		mt_table_add_row(table, mt_text_bytes(head->rss_bytes).text,
				 mt_text_bytes(head->used_bytes).text,
				 mt_text_bytes(head->limit_bytes).text, fate_word(looks[i].fate),
				 NULL);
	}
	mt_table_print(table);
	puts("`mtctl last PID` explains one.");
}

static void list(const struct mt_last_look *looks, size_t count, bool json)
{
	if (json)
		print_json(looks, count);
	else if (count)
		print_list(looks, count);
	else
		puts("no process was about to meet its limit, as far as the files here say");
}

/* The page is a program of its own, which reads the same file. */
static int write_page(const struct mt_last_look *look, const char *output)
{
	char report[] = "report", option[] = "-o", path[600], page[600];
	char *argv[] = {report, path, option, page, NULL};

	snprintf(path, sizeof(path), "%s", look->path);
	snprintf(page, sizeof(page), "%s", output);
	return mt_subcommand_exec(mt_command_find("report"), argv);
}

static int explain(const struct mt_last_look *look, const struct wanted *wanted)
{
	struct story story;

	if (wanted->output)
		return write_page(look, wanted->output);
	if (wanted->json) {
		print_json(look, 1);
		return MT_EXIT_OK;
	}
	tell(look, &story);
	print_story(&story);
	forget(&story);
	return MT_EXIT_OK;
}

static bool is_named(const struct mt_last_look *look, const char *word)
{
	struct mt_process process = {.pid = (pid_t)look->file.stats.head.pid};
	uint64_t pid;

	if (mt_text_parse_u64(word, &pid))
		return look->file.stats.head.pid == pid;
	snprintf(process.comm, sizeof(process.comm), "%s", look->file.stats.head.comm);
	snprintf(process.command, sizeof(process.command), "%.*s", (int)sizeof(process.command) - 1,
		 look->file.head.command);
	return mt_process_has_name(&process, word);
}

static int explain_file(const char *path, const struct wanted *wanted)
{
	struct mt_last_look *look = mt_error_check_memory(calloc(1, sizeof(*look)));
	struct mt_error_reason why;
	int code;

	if (mt_last_look_read(path, look, &why) != MT_ERR_OK)
		code = mt_error_fail(MT_EXIT_USAGE, &why);
	else
		code = explain(look, wanted);
	if (code == MT_EXIT_OK && wanted->remove)
		(void)remove(path);
	free(look);
	return code;
}

static int run(const char *word, const struct wanted *wanted)
{
	struct mt_last_look *looks;
	char folder[600];
	size_t count, at = 0;
	int code = MT_EXIT_OK;

	if (word && (strchr(word, '/') || mt_text_ends_with(word, ".last")))
		return explain_file(word, wanted);
	mt_last_look_folder(wanted->dir, folder, sizeof(folder));
	count = mt_last_look_list(folder, &looks);
	while (word && at < count && !is_named(&looks[at], word))
		at++;
	if (!word) {
		list(looks, count, wanted->json);
	} else if (at == count) {
		mt_error_say(
			"no file of '%.60s' in %s: it was not near its limit, it ended in order, "
			"or MT_LAST_DIR names another folder",
			word, *folder ? folder : "any folder");
		code = MT_EXIT_NOTHING;
	} else {
		code = explain(&looks[at], wanted);
	}
	for (size_t i = 0; i < count && wanted->remove; i++)
		if (looks[i].fate != MT_LAST_RUNS && (!word || i == at))
			(void)remove(looks[i].path);
	free(looks);
	return code;
}

int mt_command_last(int argc, char **argv)
{
	struct wanted wanted = {0};
	const struct mt_option options[] = {
		{.name = "output", .target = &wanted.output, .take = mt_option_text, .letter = 'o'},
		{.name = "dir", .target = &wanted.dir, .take = mt_option_text},
		{.name = "json", .target = &wanted.json},
		{.name = "remove", .target = &wanted.remove},
		{0}};
	const struct mt_command_line line = {"last", help, NULL, options, 0, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (wanted.output && !argv[optind]) {
		mt_error_say("last: -o needs a PID, a name or a file");
		return mt_command_misused("last");
	}
	return run(argv[optind], &wanted);
}
