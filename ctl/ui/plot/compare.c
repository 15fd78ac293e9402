/* ctl/ui/plot/compare.c -- `mtctl compare`: recorded runs in one picture. */
#include <stdlib.h>

#include "ctl/command.h"
#include "ctl/ui/plot/comparison.h"
#include "ctl/ui/plot/plotting.h"

int mt_compare_run(int argc, char **argv)
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
	mt_runs_free(&runs);
	return code;
}
