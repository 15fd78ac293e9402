/* ctl/cmd/last.c -- `mtctl last`: what filled the memory of a process that the kernel killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/figures/stats_file.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"
#include "ctl/profile/sites.h"

struct wanted {
	const char *output, *dir;
	bool json, remove;
};

static const char *const fate_words[] = {
#define X(name, word, text) word,
	MT_LAST_FATES(X)
#undef X
};
static const char *const cause_words[] = {
#define X(name, text) text,
	MT_LAST_CAUSES(X)
#undef X
};

/* ---- text ---- */

/* What the status has beyond the head. */
static void print_status(const char *status)
{
	uint64_t peak_kb, threads;

	if (mt_read_file_number(status, "VmHWM", &peak_kb))
		printf(", at most %s", mt_text_bytes(peak_kb * 1024).text);
	if (mt_read_file_number(status, "Threads", &threads))
		printf(", %s", mt_text_counted(threads, "thread", "threads").text);
}

static void print_parts(const struct mt_last_summary *summary)
{
	struct mt_table *table = mt_table_new("<  PART|>BYTES|>CHANGE|<MEANING");

	printf("\nmemory: RSS %s", mt_text_bytes(summary->look->file.head.rss_bytes).text);
	print_status(summary->look->file.head.status);
	if (summary->look->file.head.swap_bytes)
		printf(", swap %s", mt_text_bytes(summary->look->file.head.swap_bytes).text);
	if (summary->seconds > 0)
		printf("; change in the last %.0f s", summary->seconds);
	putchar('\n');
	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		mt_table_addf(table, "  %s", mt_memory_part_word(i));
		mt_table_add_row(table, mt_text_bytes(summary->parts.bytes[i]).text,
				 summary->seconds > 0 ? mt_text_change(summary->before.bytes[i],
								       summary->parts.bytes[i])
								.text
						      : "-",
				 mt_memory_part_meaning(i), NULL);
	}
	mt_table_print(table);
}

static void print_verdict(const struct mt_diagnosis *diagnosis)
{
	const struct mt_finding *finding = &diagnosis->list[0];

	printf("\nverdict: %s%s%s\n",
	       finding->is_headline ? "" : mt_diagnose_word(finding->verdict),
	       finding->is_headline ? "" : ", ", finding->text);
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

static void print_summary(const struct mt_last_summary *summary)
{
	const struct mt_last_file *file = &summary->look->file;

	mt_last_summary_write_head(summary, stdout);
	print_parts(summary);
	mt_last_summary_write_growth(summary, stdout);
	print_cleanups(&file->stats);
	print_verdict(summary->diagnosis);
	printf("\nThe whole report: mtctl last %s -o report.html\n", summary->look->path);
}

/* ---- JSON ---- */

static json_t *sites_json(const struct mt_last_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < file->head.sites_count; i++) {
		json_t *site = mt_json_append_object(array), *lines = json_array();
		char text[sizeof(file->sites[i].text)], *rest = text, *line;

		memcpy(text, file->sites[i].text, sizeof(text));
		while ((line = strsep(&rest, "\n")))
			mt_json_append(lines, json_string(line));
		mt_json_set_u64(site, "bytes", file->sites[i].bytes);
		mt_json_set_u64(site, "largest_bytes", file->sites[i].largest_bytes);
		mt_json_set_u64(site, "growths_count", file->sites[i].count);
		mt_json_set(site, "stack", lines);
	}
	return array;
}

static json_t *others_json(const struct mt_last_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < file->head.processes_count; i++) {
		json_t *process = mt_json_append_object(array);

		mt_json_set_u64(process, "pid", file->processes[i].pid);
		mt_json_set_text(process, "comm", file->processes[i].comm);
		mt_json_set_u64(process, "rss_bytes", file->processes[i].rss_bytes);
	}
	return array;
}

/* The lines of /proc/PID/status by their names. */
static json_t *status_json(const struct mt_last_head *head)
{
	json_t *object = json_object();
	char text[sizeof(head->status)], *rest = text, *line;

	memcpy(text, head->status, sizeof(text));
	while ((line = strsep(&rest, "\n"))) {
		char *value = strchr(line, ':');

		if (!value || !rest)
			continue;
		*value++ = '\0';
		mt_json_set_text(object, line, value + strspn(value, " "));
	}
	return object;
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
	mt_json_set_text(object, "fate", fate_words[look->fate]);
	mt_json_set_text_or_null(object, "evidence", look->evidence);
	mt_json_set_text(object, "cause", cause_words[head->cause]);
	mt_json_set_text_or_null(object, "limit_source", head->limit_path);
#define X(name) mt_json_set_u64(object, #name, head->name);
	HEAD_FIGURES(X)
#undef X
	mt_json_set(object, "status", status_json(head));
}

static json_t *summary_json(const struct mt_last_summary *summary)
{
	const struct mt_last_file *file = &summary->look->file;
	const struct mt_finding *finding = &summary->diagnosis->list[0];
	json_t *object = json_object();

	set_head(summary->look, object);
	mt_json_set_text(object, "filled_by", mt_last_summary_filler(summary->filler));
	mt_json_set_u64(object, "filled_bytes", summary->filler_bytes);
	mt_json_set(object, "parts", mt_memory_parts_json(&summary->parts));
	mt_json_set(object, "parts_before",
		    summary->seconds > 0 ? mt_memory_parts_json(&summary->before) : json_null());
	mt_json_set(object, "before_s", json_real(summary->seconds));
	mt_json_set(object, "sites", sites_json(file));
	mt_json_set_u64(object, "unknown_bytes", file->head.unknown_bytes);
	mt_json_set(object, "others", others_json(file));
	mt_json_set_u64(object, "processes_count", file->head.processes_total);
	mt_json_set_bool(object, "processes_count_is_cut",
			 file->head.processes_total >= MT_LAST_PROCESSES_MAX);
	mt_json_set_text(object, "verdict", mt_diagnose_word(finding->verdict));
	mt_json_set_text(object, "title", finding->text);
	return object;
}

static void print_json(const struct mt_last_look *looks, size_t count)
{
	json_t *root = json_object(), *array = json_array();

	for (size_t i = 0; i < count; i++) {
		struct mt_last_summary summary;

		mt_last_summary_find(&looks[i], &summary);
		mt_json_append(array, summary_json(&summary));
		mt_last_summary_free(&summary);
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
				 mt_text_bytes(head->limit_bytes).text, fate_words[looks[i].fate],
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

/* Names the functions of the sites, if the file is the caller's own: a path in it is opened. */
static void name_sites(struct mt_last_look *look)
{
	struct mt_last_file *file = &look->file;
	const size_t count = file->head.sites_count;
	char **texts = mt_error_check_memory(calloc(count + 1, sizeof(*texts)));
	struct stat seen;

	if (stat(look->path, &seen) != 0 || seen.st_uid != geteuid()) {
		free(texts);
		return;
	}
	for (size_t i = 0; i < count; i++)
		texts[i] = mt_error_check_memory(strdup(file->sites[i].text));
	mt_symbols_name_call_sites(texts, count, (time_t)(file->head.time_ns / 1000000000));
	for (size_t i = 0; i < count; i++) {
		snprintf(file->sites[i].text, sizeof(file->sites[i].text), "%s", texts[i]);
		free(texts[i]);
	}
	free(texts);
}

static int explain(struct mt_last_look *look, const struct wanted *wanted)
{
	struct mt_last_summary summary;

	if (wanted->output)
		return write_page(look, wanted->output);
	name_sites(look);
	if (wanted->json) {
		print_json(look, 1);
		return MT_EXIT_OK;
	}
	mt_last_summary_find(look, &summary);
	print_summary(&summary);
	mt_last_summary_free(&summary);
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
	const struct mt_command_line line = {"last", NULL, options, 0, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (wanted.output && !argv[optind]) {
		mt_error_say("last: -o needs a PID, a name or a file");
		return mt_command_misused("last");
	}
	return run(argv[optind], &wanted);
}
