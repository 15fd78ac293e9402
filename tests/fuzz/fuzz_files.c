/* fuzz_files.c -- what mtctl reads that another process wrote: stats files, blocks of a GPU pool,
 * heap profiles, Python lines, recordings, names in the directory of files; and everything that it
 * prints of them, out of which no byte may steer a terminal or spoil JSON.
 *
 * Parts of an input: %%stats, %%blocks (lines of forge.h); %%rawstats, %%rawblocks, %%rawlines
 * (the bytes of the file); %%lines (bytes, of which forge.h makes a file with right sizes and
 * sums); %%heap, %%recording (the text of the file); %%names (a file's name on each line).
 * Letters behind %%stats say what becomes of it: s stat, m metrics, r recording, d diagnose. A
 * second %%stats, %%heap or %%recording is what came later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/channel/pool_snapshot.h"
#include "ctl/channel/process_list.h"
#include "ctl/channel/process_tree.h"
#include "ctl/channel/stats_dir.h"
#include "ctl/channel/target.h"
#include "ctl/cmd/parts.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/metrics/openmetrics.h"
#include "ctl/metrics/recording.h"
#include "ctl/output/json.h"
#include "ctl/profile/lines.h"
#include "ctl/profile/profile_internal.h"
#include "ctl/profile/sites.h"
#include "ctl/ui/plot/plot.h"
#include "files_drawn.h"
#include "forge.h"
#include "fuzz.h"

/* ---- what stands in for the machine (fuzz.mk: --wrap) ---- */

/* A checksum that does not hold is read 50 times, a millisecond apart. */
int __wrap_nanosleep(const struct timespec *span, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *span, struct timespec *rest)
{
	(void)span;
	(void)rest;
	return 0;
}

/* libdw in a child of its own names addresses; here they keep their offsets. */
void __wrap_mt_symbolizer_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			       char **texts);
void __wrap_mt_symbolizer_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			       char **texts)
{
	for (size_t i = 0; i < count; i++)
		texts[i] = mt_symbols_offset(symbols, addresses[i]);
}

char *__wrap_mt_process_maps(pid_t pid);
char *__wrap_mt_process_maps(pid_t pid)
{
	(void)pid;
	return strdup("1000-3000 r-xp 00000000 08:01 11 /usr/bin/python3.11\n"
		      "7000-9000 r-xp 00000000 08:01 12 /usr/lib/libmtshim.so\n"
		      "a000-b000 r-xp 00000000 08:01 13 /opt/a file \033[31m;x (deleted)\n");
}

/* The fonts of the machine are not what is tried here. */
double __wrap_mt_canvas_text_width(struct mt_canvas *canvas, const char *text,
				   const struct mt_font *font);
double __wrap_mt_canvas_text_width(struct mt_canvas *canvas, const char *text,
				   const struct mt_font *font)
{
	(void)canvas;
	return (double)strlen(text) * font->size * 0.6;
}

/* That of the machine stands in `ps --json`, and takes longer than all the rest. */
enum mt_err __wrap_mt_limit_find(const char *root, pid_t pid, struct mt_limit *out);
enum mt_err __wrap_mt_limit_find(const char *root, pid_t pid, struct mt_limit *out)
{
	(void)root;
	(void)pid;
	(void)out;
	return MT_ERR_SYSTEM;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	setenv("NO_COLOR", "1", 1);
	setenv("MT_DIR", fuzz_root(), 1);
	return 0;
}

/* ---- stats ---- */

static const struct mt_process self = {.pid = 42,
				       .parent = 1,
				       .own_pid = 42,
				       .start_ticks = 4242,
				       .pidns = 4026531836,
				       .rss_bytes = 100 << 20,
				       .shimmed = true,
				       .comm = "python3",
				       .command = "python3 train.py"};

static void print_stat(const struct mt_target *target, bool all)
{
	const struct mt_stat_view view = {.records = all, .samples = all};
	const char *text;
	size_t bytes;

	fuzz_output_begin();
	mt_stat_print_text(target, &view);
	mt_stat_print_oom_text(target);
	text = fuzz_output_end(&bytes);
	fuzz_expect_clean("stat", text, bytes);
	fuzz_output_begin();
	mt_json_print(mt_stats_json(target), all);
	text = fuzz_output_end(&bytes);
	fuzz_expect_json("stat --json", text, bytes);
	fuzz_output_begin();
	mt_stats_json_print_oom(target, !all);
	text = fuzz_output_end(&bytes);
	fuzz_expect_json("stat --oom --json", text, bytes);
}

/* As mt_process_list_read has it of two processes, of which the second is the first one's child and
 * has no figures. */
static void tell_process_list(const struct mt_target *target)
{
	struct mt_process_list_entry list[2] = {
		{.process = self,
		 .parent = MT_ANCESTRY_NONE,
		 .state = MT_PROCESS_AWAKE,
		 .head = target->file.head},
		{.process = self, .parent = 0, .depth = 1, .state = MT_PROCESS_ASLEEP}};
	size_t order[2] = {0, 1}, bytes;
	struct mt_process_list processes = {
		.list = list, .count = 2, .order = order, .order_count = 2};
	struct mt_stats_device devices[MT_DEVICES_COUNT];
	const char *text;
	char *page;

	memcpy(devices, target->file.devices, sizeof(devices));
	list[0].devices = list[0].head.devices_count ? devices : NULL;
	list[0].uses_cuda = processes.uses_cuda = mt_stats_file_uses_cuda(&list[0].head);
	list[0].own.heap_live_bytes = list[0].head.snapshot.heap_live_bytes;
	list[0].own.rss_bytes = self.rss_bytes;
	list[0].tree = processes.total = list[0].own;
	list[1].process.pid = 43;
	page = mt_openmetrics_render(&processes, MT_EXPOSITION_OPENMETRICS, &bytes);
	fuzz_expect_clean("metrics", page, bytes);
	fuzz_expect(bytes >= 6 && strcmp(page + bytes - 6, "# EOF\n") == 0, "of %zu bytes", bytes);
	free(page);
	page = mt_openmetrics_render(&processes, MT_EXPOSITION_TEXT, &bytes);
	fuzz_expect_clean("metrics in the old format", page, bytes);
	free(page);
	fuzz_output_begin();
	mt_json_print(mt_process_list_json(&processes), false);
	text = fuzz_output_end(&bytes);
	fuzz_expect_json("ps --json", text, bytes);
}

static void tell_recording_of(const struct mt_target *target)
{
	struct mt_recording recording;

	mt_recording_of_process(target, &recording);
	for (size_t i = 1; i < recording.samples_count; i++)
		fuzz_expect(recording.samples[i - 1].time_ns <= recording.samples[i].time_ns,
			    "sample %zu", i);
	fuzz_expect_text("a recording's name", recording.name, sizeof(recording.name));
	mt_recording_free(&recording);
}

static void judge_now(const struct mt_facts *facts)
{
	static struct mt_diagnosis found;

	mt_findings_of_one_look(facts, &found);
	for (size_t i = 0; i < found.count; i++) {
		const struct mt_finding *one = &found.list[i];

		fuzz_expect_text("a finding", one->text, sizeof(one->text));
		fuzz_expect_text("a setting", one->environment, sizeof(one->environment));
		fuzz_expect_text("a setting", one->command, sizeof(one->command));
	}
}

/* A look of some seconds at a process that says this at first, and that at last. */
static void diagnose(const struct mt_stats_file *first, const struct mt_stats_file *last)
{
	static struct mt_facts facts;
	static struct mt_diagnosis diagnosis;
	struct mt_facts *list[1] = {&facts};
	struct mt_diagnosis *diagnoses[1] = {&diagnosis};
	struct mt_diagnose_report told = {.facts = list, .diagnoses = diagnoses, .count = 1};
	const struct mt_stats_snapshot *from = &first->head.snapshot, *to = &last->head.snapshot;
	const char *text;
	size_t bytes;

	memset(&facts, 0, sizeof(facts));
	facts.process = self;
	facts.awake = true;
	facts.duration_s = 60;
	facts.first = *first;
	facts.last = *last;
	facts.trim.requested = facts.trim.done = last->cleanups[0].number != 0;
	facts.trim.record = last->cleanups[0];
	memcpy(facts.classes_last.list, last->classes, sizeof(facts.classes_last.list));
	facts.classes_last.count = last->head.classes_count;
	facts.limit_known = to->pressure_limit_bytes != 0;
	facts.limit = (struct mt_limit){.used_bytes = to->pressure_used_bytes,
					.limit_bytes = to->pressure_limit_bytes};
	snprintf(facts.limit.source, sizeof(facts.limit.source), "%s", last->head.limit_source);
	for (size_t i = 0; i < 40; i++) {
		const struct mt_stats_snapshot *now = i < 20 ? from : to;
		struct mt_sample *sample = &facts.samples[facts.samples_count++];

		*sample = (struct mt_sample){.at_s = 1.5 * (double)i,
					     .rss_bytes = now->rss_bytes,
					     .anon_bytes = now->rss_anon_bytes,
					     .live_bytes = now->heap_live_bytes,
					     .idle_bytes = now->heap_idle_bytes,
					     .held_bytes = now->heap_live_bytes,
					     .dirty_bytes = now->heap_dirty_bytes,
					     .gpu_reserved_bytes = now->gpu_reserved_bytes,
					     .gpu_allocated_bytes = now->gpu_allocated_bytes};
	}
	mt_diagnose_decide(&facts, &diagnosis);
	fuzz_expect(diagnosis.count >= 1, "%zu findings", diagnosis.count);
	fuzz_output_begin();
	mt_diagnose_print_text(&told);
	text = fuzz_output_end(&bytes);
	fuzz_expect_clean("diagnose", text, bytes);
	fuzz_output_begin();
	mt_diagnose_print_json(&told);
	text = fuzz_output_end(&bytes);
	fuzz_expect_json("diagnose --json", text, bytes);
	judge_now(&facts);
}

/* All of it together takes 10 ms: an input may choose. */
static bool wants(const char *what, char letter)
{
	return !*what || strchr(what, letter);
}

static void read_stats(const void *bytes, size_t count, const char *what, bool *has_before)
{
	static struct mt_target before, now;
	struct mt_stats_device devices[MT_DEVICES_COUNT];
	struct mt_stats_head head;
	struct mt_error_reason why = {.text = ""};
	int fd = fuzz_file(bytes, count);
	enum mt_err error = mt_stats_file_read(fd, &now.file, &why);

	fuzz_expect_text("why a stats file is refused", why.text, sizeof(why.text));
	fuzz_expect(error || mt_stats_file_read_head(fd, &head, &why) == MT_ERR_OK, "%s", why.text);
	if (!error && memcmp(&head, &now.file.head, sizeof(head)) == 0)
		(void)mt_stats_file_read_devices(fd, &head, devices, &why);
	close(fd);
	if (error)
		return;
	now.process = self;
	if (wants(what, 's'))
		print_stat(&now, count % 2);
	if (wants(what, 'm'))
		tell_process_list(&now);
	if (wants(what, 'r'))
		tell_recording_of(&now);
	(void)mt_stats_file_cleanup_of_request(&now.file, now.file.cleanups[1].request_seq);
	if (wants(what, 'd'))
		diagnose(*has_before ? &before.file : &now.file, &now.file);
	before = now;
	*has_before = true;
}

/* ---- blocks ---- */

static void read_blocks(const void *bytes, size_t count)
{
	static struct mt_pool_snapshot snapshot;
	struct mt_pool_snapshot_view view = {MT_POOL_SNAPSHOT_ALL,
					     count % 3 ? MT_POOL_SNAPSHOT_ALL : 2};
	struct mt_error_reason why = {.text = ""};
	const char *text;
	size_t printed;
	int fd = fuzz_file(bytes, count);
	enum mt_err error = mt_blocks_file_read(fd, &snapshot.blocks, &why);

	close(fd);
	fuzz_expect_text("why a file of blocks is refused", why.text, sizeof(why.text));
	if (error)
		return;
	snapshot.target.process = self;
	for (int turn = 0; turn < 2;
	     turn++, view.device = snapshot.blocks.count ? snapshot.blocks.entries[0].device : 0) {
		fuzz_output_begin();
		mt_snapshot_print(&snapshot, &view);
		text = fuzz_output_end(&printed);
		fuzz_expect_clean("snapshot", text, printed);
		fuzz_output_begin();
		mt_pool_snapshot_write_json(&snapshot, &view, stdout);
		text = fuzz_output_end(&printed);
		fuzz_expect_json("snapshot --json", text, printed);
	}
	mt_pool_snapshot_free(&snapshot);
}

/* ---- heap profiles ---- */

static struct mt_symbols *program(void)
{
	static struct mt_symbols *symbols;
	struct mt_error_reason why;

	if (!symbols && mt_symbols_new(&self, &symbols, &why) != MT_ERR_OK)
		abort();
	return symbols;
}

static void print_sites(const struct mt_sites *sites, uint64_t over_ms)
{
	const struct mt_sites_view view = {
		.process = &self, .top = over_ms ? 3 : 0, .over_ms = over_ms};
	const char *text;
	struct mt_error_reason why;
	size_t bytes;

	fuzz_output_begin();
	mt_sites_print_table(sites, &view);
	mt_sites_print_folded(sites, &view);
	text = fuzz_output_end(&bytes);
	fuzz_expect_clean("sites", text, bytes);
	fuzz_output_begin();
	mt_sites_print_json(sites, &view);
	text = fuzz_output_end(&bytes);
	fuzz_expect_json("sites --json", text, bytes);
	fuzz_expect(mt_sites_write_pprof(sites, "/dev/null", &why) == MT_ERR_OK, "%s", why.text);
}

static void read_heap(const struct fuzz_part *part, struct mt_sites *before, bool *has_before)
{
	struct mt_heap_profile file;
	struct mt_sites sites, growth;
	struct mt_error_reason why;

	if (mt_heap_profile_parse(part->text, part->bytes, &file, &why) != MT_ERR_OK) {
		fuzz_expect_text("why a profile is refused", why.text, sizeof(why.text));
		return;
	}
	mt_sites_read(&file, program(), &sites);
	mt_heap_profile_free(&file);
	print_sites(&sites, 0);
	if (*has_before) {
		mt_sites_growth(before, &sites, &growth);
		print_sites(&growth, 1500);
		mt_sites_free(&growth);
		mt_sites_free(before);
	}
	*before = sites;
	*has_before = true;
}

/* ---- Python lines ---- */

static void read_lines(const void *bytes, size_t count)
{
	const struct mt_sites_view view = {.process = &self, .top = count % 2 ? 0 : 3};
	struct mt_lines_file file;
	struct mt_lines lines;
	struct mt_sites sites;
	struct mt_error_reason why = {.text = ""};
	const char *text;
	size_t printed;
	int fd = fuzz_file(bytes, count);
	enum mt_err error = mt_lines_file_read(fd, &file, &why);

	close(fd);
	fuzz_expect_text("why a file of lines is refused", why.text, sizeof(why.text));
	if (error)
		return;
	mt_lines_read(&file, &lines);
	fuzz_output_begin();
	mt_lines_print_table(&lines, &view);
	mt_sites_of_lines(&lines, &sites);
	mt_sites_print_folded(&sites, &(const struct mt_sites_view){.process = &self});
	mt_sites_free(&sites);
	text = fuzz_output_end(&printed);
	fuzz_expect_clean("sites --python", text, printed);
	fuzz_output_begin();
	mt_json_print(mt_lines_json(&lines, &view), true);
	text = fuzz_output_end(&printed);
	fuzz_expect_json("sites --python --json", text, printed);
	mt_lines_free(&lines);
}

/* ---- names ---- */

/* Digits without noughts before them, as the shim writes them. */
static bool is_number(const char **at, char end)
{
	size_t digits = strspn(*at, "0123456789");
	bool is = digits && digits < 21 && (**at != '0' || digits == 1) && (*at)[digits] == end;

	*at += is ? digits + 1 : 0;
	return is;
}

/* May the sweep take it? The process is gone, or nobody's: of those that there are here none has
 * the file of another. */
static bool may_go(const char *name)
{
	static const char *const kinds[] = {"stats", "control", "heap", "blocks", "lines", "fresh"};

	if (!is_number(&name, '-') || !is_number(&name, '-') || !is_number(&name, '.'))
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(name, kinds[i]) == 0)
			return true;
	return false;
}

static void sweep(char *text)
{
	char names[16][64];
	size_t count = 0;

	for (char *line; count < 16 && (line = fuzz_line(&text));) {
		if (!*line || strlen(line) >= sizeof(names[0]) || strchr(line, '/') ||
		    strcmp(line, ".") == 0 || strcmp(line, "..") == 0)
			continue;
		snprintf(names[count], sizeof(names[0]), "/%s", line);
		count += fuzz_root_put(names[count], "x", 1);
	}
	mt_stats_dir_sweep(NULL, 0);
	for (size_t i = 0; i < count; i++) {
		char path[160];

		snprintf(path, sizeof(path), "%s%s", fuzz_root(), names[i]);
		fuzz_expect(access(path, F_OK) == 0 || may_go(names[i] + 1), "%s is gone",
			    names[i]);
	}
	fuzz_root_clear();
}

/* ---- one input ---- */

struct kept {
	struct mt_sites sites;
	struct mt_recording recordings[4];
	size_t recordings_count;
	bool has_sites, has_stats;
};

static void take(struct fuzz_part *part, struct kept *kept)
{
	unsigned char *bytes;
	const char *what;
	size_t count;

	if (fuzz_is(part, "stats", &what)) {
		count = fuzz_forge_stats(part->text, &bytes);
		read_stats(bytes, count, what, &kept->has_stats);
		free(bytes);
	} else if (fuzz_is(part, "blocks", NULL)) {
		count = fuzz_forge_blocks(part->text, &bytes);
		read_blocks(bytes, count);
		free(bytes);
	} else if (fuzz_is(part, "rawstats", &what)) {
		read_stats(part->text, part->bytes, what, &kept->has_stats);
	} else if (fuzz_is(part, "rawblocks", NULL)) {
		read_blocks(part->text, part->bytes);
	} else if (fuzz_is(part, "lines", NULL)) {
		count = fuzz_forge_lines(part->text, part->bytes, &bytes);
		read_lines(bytes, count);
		free(bytes);
	} else if (fuzz_is(part, "rawlines", NULL)) {
		read_lines(part->text, part->bytes);
	} else if (fuzz_is(part, "heap", NULL)) {
		read_heap(part, &kept->sites, &kept->has_sites);
	} else if (fuzz_is(part, "recording", NULL) && kept->recordings_count < 4) {
		kept->recordings_count +=
			fuzz_read_recording(part, &kept->recordings[kept->recordings_count]);
	} else if (fuzz_is(part, "names", NULL)) {
		sweep(part->text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_parts parts;
	struct kept kept = {.recordings_count = 0};

	fuzz_cut(data, bytes, &parts);
	for (size_t i = 0; i < parts.count; i++)
		take(&parts.list[i], &kept);
	if (kept.has_sites)
		mt_sites_free(&kept.sites);
	if (kept.recordings_count)
		fuzz_draw(kept.recordings, kept.recordings_count);
	for (size_t i = 0; i < kept.recordings_count; i++)
		mt_recording_free(&kept.recordings[i]);
	fuzz_drop(&parts);
	return 0;
}
