/* ctl/cmd/plot.c -- `mtctl plot` in the terminal and the table of `mtctl compare`. mtctl-plot draws
 * pictures, since they need a graphics library. */
#include <stdio.h>

#include "ctl/cmd/plot_text.h"
#include "ctl/command.h"
#include "ctl/metrics/recording_source.h"
#include "ctl/metrics/run.h"

/* The program reads the same command line again. */
static int draw_picture(const char *name, char **argv)
{
	const struct mt_command picture = {.name = name, .program = "mtctl-plot"};

	return mt_subcommand_exec(&picture, argv);
}

int mt_command_plot(int argc, char **argv)
{
	struct mt_plot_options options;
	struct mt_recording recording;
	struct mt_error_reason why;
	int code;

	if (!mt_plot_options_read(argc, argv, &options, &code))
		return code;
	if (options.path)
		return draw_picture("plot", argv);
	code = mt_recording_of_source(options.source, &recording);
	if (code != MT_EXIT_OK)
		return code;
	if (mt_plot_text(&recording, &options,
			 mt_recording_is_file(options.source) ? options.clock : !options.no_clock,
			 &why) != MT_ERR_OK)
		code = mt_error_fail(MT_EXIT_USAGE, &why);
	mt_recording_free(&recording);
	return code;
}

int mt_command_compare(int argc, char **argv)
{
	struct mt_compare_options options;
	struct mt_runs runs;
	int code;

	if (!mt_compare_options_read(argc, argv, &options, &code))
		return code;
	if (options.path)
		return draw_picture("compare", argv);
	code = mt_runs_read(options.files, options.files_count, options.labels, &runs);
	if (code != MT_EXIT_OK)
		return code;
	(options.json ? mt_run_print_json : mt_run_print_table)(runs.list, runs.count);
	mt_runs_free(&runs);
	return MT_EXIT_OK;
}
