/* ctl/cmd/sites.c -- `mtctl sites`: live heap bytes by the stack that allocated them, and the lines
 * of a Python program that allocate what grows. */
#include "ctl/output/json.h"
#include "ctl/process/clock.h"
#include "ctl/profile/lines.h"

#include <signal.h>

#include "ctl/channel/target.h"
#include "ctl/command.h"

#define TOP_DEFAULT      10
#define LOOK_MS          30000u
#define FRAMES_DEFAULT   10u
#define DIFF_MIN_SECONDS 0.01
#define LOOK_MIN_SECONDS 0.001

struct wanted {
	struct mt_sites_view view;
	bool json, folded;
	const char *pprof; /* NULL: none */
	bool python;
	uint64_t look_ms, frames; /* 0: not given */
};

static bool write_file(const struct wanted *wanted, const struct mt_sites *sites)
{
	struct mt_error_reason why;

	if (!wanted->pprof || mt_sites_write_pprof(sites, wanted->pprof, &why) == MT_ERR_OK)
		return true;
	(void)mt_error_fail(MT_EXIT_USAGE, &why);
	return false;
}

static int print(const struct wanted *wanted, const struct mt_sites *sites)
{
	if (!write_file(wanted, sites))
		return MT_EXIT_USAGE;
	(wanted->json     ? mt_sites_print_json
	 : wanted->folded ? mt_sites_print_folded
			  : mt_sites_print_table)(sites, &wanted->view);
	return sites->count ? MT_EXIT_OK : MT_EXIT_NOTHING;
}

/* With --diff what has grown since a first look. */
static int show_sites(struct wanted *wanted)
{
	const struct mt_process *process = wanted->view.process;
	struct mt_sites before = {0}, now = {0}, growth = {0};
	struct mt_error_reason why;
	uint64_t began_ns = mt_clock_now_ns();
	bool is_diff = wanted->view.over_ms;
	enum mt_err error = MT_ERR_OK;
	int code;

	if (is_diff) {
		error = mt_sites_collect(process, &before, &why);
		if (!error)
			mt_clock_sleep_ms((unsigned)wanted->view.over_ms);
	}
	if (!error)
		error = mt_sites_collect(process, &now, &why);
	if (is_diff && !error && !mt_process_runs(process->pid, process->stack_start))
		error = mt_error_because(&why, MT_ERR_NOT_AVAILABLE,
					 "it ran another program (exec) meanwhile");
	if (is_diff && !error) {
		wanted->view.over_ms = (mt_clock_now_ns() - began_ns) / 1000000u;
		mt_sites_growth(&before, &now, &growth);
	}
	code = error ? (int)mt_target_fail(process, error, &why)
		     : print(wanted, is_diff ? &growth : &now);
	mt_sites_free(&growth);
	mt_sites_free(&now);
	mt_sites_free(&before);
	return code;
}

/* ---- Python lines ---- */

static volatile sig_atomic_t stopped;

/* The first signal ends the look, the second one mtctl: the process ends its look by itself. */
static void stop(int number)
{
	stopped = 1;
	(void)signal(number, SIG_DFL);
}

static int print_lines(const struct wanted *wanted, const struct mt_lines *lines)
{
	const struct mt_sites_view all = {.process = wanted->view.process};
	struct mt_sites sites;
	bool written;

	mt_sites_of_lines(lines, &sites);
	written = write_file(wanted, &sites);
	if (written && wanted->json)
		mt_json_print(mt_lines_json(lines, &wanted->view), true);
	else if (written && wanted->folded)
		mt_sites_print_folded(&sites, &all);
	else if (written)
		mt_lines_print_table(lines, &wanted->view);
	mt_sites_free(&sites);
	if (!written)
		return MT_EXIT_USAGE;
	return lines->growth_bytes > 0 ? MT_EXIT_OK : MT_EXIT_NOTHING;
}

static int show_lines(const struct wanted *wanted)
{
	const struct mt_process *process = wanted->view.process;
	const struct mt_lines_options options = {
		.for_ms = wanted->look_ms ? wanted->look_ms : LOOK_MS,
		.depth = wanted->frames ? (uint32_t)wanted->frames : FRAMES_DEFAULT,
		.stop = &stopped,
		.begun = mt_lines_say_cost,
	};
	struct mt_error_reason why;
	struct mt_lines lines;
	enum mt_err error;
	int code;

	mt_command_set_end_signals(stop);
	error = mt_lines_collect(process, &options, &lines, &why);
	if (error)
		return mt_target_fail(process, error, &why);
	code = print_lines(wanted, &lines);
	mt_lines_free(&lines);
	return code;
}

static bool take_frames(const struct mt_option *option, const char *text)
{
	uint64_t *frames = option->target;

	if (mt_option_number(option, text) && *frames >= 1 && *frames <= MT_LINES_DEPTH_MAX)
		return true;
	mt_error_say("--frames wants 1 to %u frames", MT_LINES_DEPTH_MAX);
	return false;
}

/* Prints a message if the options contradict each other. */
static bool is_consistent(const struct wanted *wanted)
{
	const char *fault = NULL;

	if (wanted->python && wanted->view.over_ms)
		fault = "--python does not go with --diff";
	else if (!wanted->python && (wanted->look_ms || wanted->frames))
		fault = "--for and --frames are for --python";
	if (fault)
		mt_error_say("%s", fault);
	return !fault;
}

static int show(struct wanted *wanted, const char *word)
{
	struct mt_process process;
	int code = wanted->python ? mt_target_find_any(word, false, &process)
				  : mt_target_find(word, &process);

	if (code != MT_EXIT_OK)
		return code;
	wanted->view.process = &process;
	return wanted->python ? show_lines(wanted) : show_sites(wanted);
}

int mt_command_sites(int argc, char **argv)
{
	struct wanted wanted = {.view.top = TOP_DEFAULT};
	const struct mt_option options[] = {
		{.name = "top",
		 .target = &wanted.view.top,
		 .take = mt_option_number,
		 .what = "a number of sites"},
		{.name = "diff",
		 .target = &wanted.view.over_ms,
		 .take = mt_option_ms,
		 .min = DIFF_MIN_SECONDS},
		{.name = "json", .target = &wanted.json},
		{.name = "folded", .target = &wanted.folded},
		{.name = "pprof", .target = &wanted.pprof, .take = mt_option_text},
		{.name = "python", .target = &wanted.python},
		{.name = "for",
		 .target = &wanted.look_ms,
		 .take = mt_option_ms,
		 .min = LOOK_MIN_SECONDS,
		 .max = MT_LINES_MS_MAX / 1000.0},
		{.name = "frames",
		 .target = &wanted.frames,
		 .take = take_frames,
		 .what = "a number of frames"},
		{0}};
	const struct mt_command_line line = {"sites", NULL, options, 1, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	return is_consistent(&wanted) ? show(&wanted, argv[optind]) : MT_EXIT_USAGE;
}
