/* ctl/ui/plot/main.c -- the program of mtctl plot, mtctl compare and mtctl report. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/metrics/recording.h"
#include "ctl/output/outfile.h"
#include "ctl/process/clock.h"
#include "ctl/report/report.h"
#include "ctl/ui/plot/plot.h"

/* ---- `mtctl compare`: recorded runs in one picture ---- */

static int compare_run(int argc, char **argv)
{
	struct mt_compare_options options;
	struct mt_error_reason why;
	struct mt_runs runs;
	int code;

	if (!mt_compare_options_read(argc, argv, &options, &code))
		return code;
	code = mt_runs_read(options.files, options.files_count, options.labels, &runs);
	if (code != MT_EXIT_OK)
		return code;
	if (options.path && mt_comparison_draw(runs.list, runs.count, &options, &why) != MT_ERR_OK)
		code = mt_error_fail(MT_EXIT_USAGE, &why);
	else
		(options.json ? mt_run_print_json : mt_run_print_table)(runs.list, runs.count);
	if (options.path && code == MT_EXIT_OK)
		mt_error_say("wrote %s", options.path);
	mt_runs_free(&runs);
	return code;
}

/* ---- `mtctl plot`: memory over time as a picture ---- */

static int plot_run(int argc, char **argv)
{
	struct mt_plot_options wanted;
	struct mt_picture_options picture;
	struct mt_recording recording;
	struct mt_error_reason why;
	int code;

	if (!mt_plot_options_read(argc, argv, &wanted, &code))
		return code;
	if (!wanted.path) {
		mt_error_say("plot: -o FILE is missing");
		return mt_command_misused("plot");
	}
	picture = (struct mt_picture_options){
		.path = wanted.path,
		.title = wanted.title,
		.width = wanted.size.width,
		.height = wanted.size.height,
		.since_s = wanted.since_s,
		.last_s = wanted.last_s,
		.pid = wanted.pid,
		.gpu = wanted.gpu,
		.as_clock =
			!wanted.no_clock && (wanted.clock || !mt_recording_is_file(wanted.source))};
	code = mt_recording_of_source(wanted.source, &recording);
	if (code != MT_EXIT_OK)
		return code;
	if (mt_picture_draw(&recording, &picture, &why) != MT_ERR_OK)
		code = mt_error_fail(MT_EXIT_USAGE, &why);
	mt_recording_free(&recording);
	return code;
}

/* ---- `mtctl report`: a process or a recording as one page, with the picture of plot ---- */

#define SECONDS_PLAIN 60.0
#define SECONDS_MIN   0.1
#define PROF_SAMPLES  2 /* of prof_state */

struct wanted {
	const char *source, *path; /* path NULL: by the name of the source */
	struct mt_diagnose_options diagnose;
	bool no_trim;
};

/* ---- the picture ---- */

static bool has_gpu(const struct mt_recording *recording)
{
	for (size_t i = 0; i < recording->samples_count; i++) {
		uint64_t bytes = recording->samples[i].bytes[MT_RECORDING_GPU_RESERVED];

		if (bytes && bytes != MT_RECORDING_UNKNOWN)
			return true;
	}
	return false;
}

/* Returns an SVG; NULL: there is nothing to be drawn. The caller frees. */
static char *draw(const struct mt_recording *recording, bool is_live, double width, double height)
{
	char *text = NULL;
	size_t bytes = 0;
	struct mt_picture_options options = {.untitled = true,
					     .width = width,
					     .height = height,
					     .gpu = has_gpu(recording),
					     .as_clock = is_live};
	struct mt_error_reason why;
	enum mt_err error;

	options.page = mt_error_check_memory(open_memstream(&text, &bytes));
	if (options.gpu)
		options.height *= 1.5;
	error = mt_picture_draw(recording, &options, &why);
	if (fclose(options.page) != 0)
		mt_error_check_memory(NULL);
	if (!error)
		return text;
	free(text);
	return NULL;
}

static enum mt_exit write_page(struct mt_report *report, const struct wanted *wanted)
{
	bool is_live = report->look != NULL;
	char *wide = draw(report->recording, is_live, 1100, 420),
	     *narrow = draw(report->recording, is_live, 420, 420), name[128];
	const char *path = wanted->path ? wanted->path : name;
	struct mt_error_reason why;
	enum mt_err error;
	FILE *file;

	report->wide = wide;
	report->narrow = narrow;
	report->time_ns = mt_clock_realtime_ns();
	if (is_live)
		snprintf(name, sizeof(name), "report-%d.html", (int)report->look->process.pid);
	else
		snprintf(name, sizeof(name), "%s.html", report->recording->name);
	error = mt_outfile_stream(path, 0600, &file, &why);
	if (!error) {
		mt_report_write(report, file);
		error = mt_outfile_finish(file, path, &why);
	}
	free(wide);
	free(narrow);
	if (error)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	if (!wanted->path)
		mt_error_say("wrote %s", path);
	return MT_EXIT_OK;
}

/* ---- a recording ---- */

/* What a process has written at its limit, with its summary. */
static enum mt_exit report_last_look(const struct wanted *wanted)
{
	struct mt_last_look *look = mt_error_check_memory(malloc(sizeof(*look)));
	struct mt_recording recording;
	struct mt_last_summary summary;
	struct mt_error_reason why;
	struct mt_report report = {.recording = &recording, .last = &summary};
	enum mt_exit code;

	if (mt_last_look_read(wanted->source, look, &why) != MT_ERR_OK) {
		free(look);
		return mt_error_fail(MT_EXIT_USAGE, &why);
	}
	mt_last_summary_find(look, &summary);
	mt_recording_of_last_look(look, &recording);
	report.facts = summary.facts;
	report.diagnosis = summary.diagnosis;
	code = write_page(&report, wanted);
	mt_recording_free(&recording);
	mt_last_summary_free(&summary);
	free(look);
	return code;
}

static enum mt_exit report_file(const struct wanted *wanted)
{
	struct mt_facts *facts = mt_error_check_memory(calloc(1, sizeof(*facts)));
	struct mt_diagnosis *diagnosis = mt_error_check_memory(calloc(1, sizeof(*diagnosis)));
	struct mt_recording recording;
	struct mt_report report = {.recording = &recording, .facts = facts, .diagnosis = diagnosis};
	enum mt_exit code = mt_recording_of_source(wanted->source, &recording);

	if (code == MT_EXIT_OK) {
		mt_recorded_facts(&recording, facts);
		mt_diagnose_decide(facts, diagnosis);
		code = write_page(&report, wanted);
		mt_recording_free(&recording);
	}
	free(diagnosis);
	free(facts);
	return code;
}

/* ---- a process ---- */

/* A process that is asleep has no ring: its memory during the diagnosis. */
static void record_facts(const struct mt_facts *facts, struct mt_recording *out)
{
	uint64_t now_ns = mt_clock_realtime_ns();
	double last_s = facts->samples_count ? facts->samples[facts->samples_count - 1].at_s : 0;
	struct mt_recording_process *process;

	*out = MT_RECORDING_EMPTY;
	out->pid = (uint64_t)facts->process.pid;
	snprintf(out->name, sizeof(out->name), "%s", facts->process.comm);
	process = mt_recording_add_process(out, out->pid);
	snprintf(process->comm, sizeof(process->comm), "%s", facts->process.comm);
	snprintf(process->command, sizeof(process->command), "%s", facts->process.command);
	for (size_t i = 0; i < facts->samples_count; i++) {
		struct mt_recording_sample sample = {
			.time_ns = now_ns - (uint64_t)((last_s - facts->samples[i].at_s) * 1e9),
			.pid = out->pid};

		for (size_t k = 0; k < MT_RECORDING_FIGURES_COUNT; k++)
			sample.bytes[k] = MT_RECORDING_UNKNOWN;
		sample.bytes[MT_RECORDING_RSS] = facts->samples[i].rss_bytes;
		sample.bytes[MT_RECORDING_ANON] = facts->samples[i].anon_bytes;
		(void)mt_recording_add_sample(out, &sample);
	}
}

/* All that is read of a process. */
struct reading {
	struct mt_facts facts;
	struct mt_diagnosis diagnosis;
	struct mt_target target;
	struct mt_look look;
	struct mt_recording recording;
	struct mt_sites sites;
	struct mt_lines lines;
};

static void diagnose(const struct wanted *wanted, struct reading *reading, struct mt_report *report)
{
	struct mt_facts *list[] = {&reading->facts};
	struct mt_error_reason why;

	mt_command_set_end_signals(mt_command_end);
	mt_diagnose_collect(list, 1, &wanted->diagnose, &mt_command_ended);
	mt_diagnose_decide(&reading->facts, &reading->diagnosis);
	if (wanted->diagnose.python && !mt_command_ended && reading->facts.awake &&
	    !reading->facts.ended) {
		if (mt_lines_collect_beside(&reading->facts.process, wanted->diagnose.seconds,
					    &mt_command_ended, &reading->lines, &why) == MT_ERR_OK)
			report->lines = &reading->lines;
		else
			snprintf(report->lines_why, sizeof(report->lines_why), "%.250s", why.text);
	}
	if (reading->facts.awake && !reading->facts.ended &&
	    reading->facts.last.head.snapshot.prof_state == PROF_SAMPLES &&
	    mt_sites_collect(&reading->facts.process, &reading->sites, &why) == MT_ERR_OK)
		report->sites = &reading->sites;
	mt_command_set_end_signals(SIG_DFL);
}

/* Before the diagnosis: the process may end meanwhile. */
static enum mt_exit look_first(struct reading *reading, struct mt_report *report)
{
	struct mt_error_reason why;
	enum mt_err error = mt_look_read(reading->facts.process.pid, &reading->look, &why);

	if (error)
		return mt_error_fail(error == MT_ERR_FOREIGN ? MT_EXIT_NOT_PERMITTED
							     : mt_error_exit(error),
				     &why);
	report->look = &reading->look;
	mt_runtime_read(reading->facts.process.pid, &report->runtime);
	return MT_EXIT_OK;
}

/* After the diagnosis, whose cleanup is a part of the report. Of a process that has ended, the
 * first look and the last published values stay. */
static void look_again(struct reading *reading, struct mt_report *report)
{
	struct mt_facts *facts = &reading->facts;
	struct mt_error_reason why;
	struct mt_look now;

	facts->ended |= !mt_process_is_alive(&facts->process);
	if (!facts->ended && mt_look_read(facts->process.pid, &now, &why) == MT_ERR_OK)
		reading->look = now;
	if (!facts->awake) {
		record_facts(facts, &reading->recording);
		return;
	}
	reading->target.process = facts->process;
	reading->target.file = facts->last;
	if (!facts->ended) {
		mt_control_file_refresh(&facts->process);
		(void)mt_target_read(&facts->process, &reading->target.file, &why);
	}
	report->target = &reading->target;
	mt_recording_of_process(&reading->target, &reading->recording);
}

static enum mt_exit report_process(const struct wanted *wanted)
{
	struct reading *reading = mt_error_check_memory(calloc(1, sizeof(*reading)));
	struct mt_report report = {.recording = &reading->recording,
				   .facts = &reading->facts,
				   .diagnosis = &reading->diagnosis};
	enum mt_exit code = mt_target_find(wanted->source, &reading->facts.process);

	if (code == MT_EXIT_OK)
		code = look_first(reading, &report);
	if (code == MT_EXIT_OK) {
		diagnose(wanted, reading, &report);
		look_again(reading, &report);
		code = write_page(&report, wanted);
	}
	if (report.sites)
		mt_sites_free(&reading->sites);
	if (report.lines)
		mt_lines_free(&reading->lines);
	mt_recording_free(&reading->recording);
	free(reading);
	return code;
}

static int report_run(int argc, char **argv)
{
	struct wanted wanted = {.diagnose = {.seconds = SECONDS_PLAIN}};
	const struct mt_option options[] = {
		{.name = "output", .target = &wanted.path, .take = mt_option_text, .letter = 'o'},
		{.name = "for",
		 .target = &wanted.diagnose.seconds,
		 .take = mt_option_seconds,
		 .min = SECONDS_MIN},
		{.name = "no-trim", .target = &wanted.no_trim},
		{.name = "gc", .target = &wanted.diagnose.gc},
		{.name = "python", .target = &wanted.diagnose.python},
		{0}};
	const struct mt_command_line line = {"report", NULL, options, 1, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	wanted.source = argv[optind];
	wanted.diagnose.trim = !wanted.no_trim;
	if (mt_last_look_is_file(wanted.source))
		return report_last_look(&wanted);
	return mt_recording_is_file(wanted.source) ? report_file(&wanted) : report_process(&wanted);
}

int main(int argc, char **argv)
{
	static const struct mt_subcommand commands[] = {
		{"plot", plot_run}, {"compare", compare_run}, {"report", report_run}, {0}};

	return mt_subcommand_main(commands, argc, argv);
}
