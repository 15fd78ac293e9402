/* ctl/ui/plot/compare.c -- `mtctl compare`: recorded runs in one picture. */
#include <stdlib.h>

#include "ctl/command.h"
#include "ctl/ui/plot/comparison.h"
#include "ctl/ui/plot/plotting.h"

static int compare(const struct mt_compare_options *options)
{
	size_t count = options->files_count, read = 0;
	struct mt_recording *runs = mt_error_check_memory(calloc(count, sizeof(*runs)));
	enum mt_err error = MT_ERR_OK;
	struct mt_error_reason why;

	for (; read < count && !error; read++) {
		error = mt_recording_read(options->files[read], &runs[read], &why);
		if (!error && *runs[read].warning.text)
			mt_error_say("%s", runs[read].warning.text);
	}
	if (!error)
		error = mt_comparison_draw(runs, count, options, &why);
	if (error)
		mt_error_say("%s", why.text);
	while (read--)
		mt_recording_free(&runs[read]);
	free(runs);
	return error ? MT_EXIT_USAGE : MT_EXIT_OK;
}

int mt_compare_run(int argc, char **argv)
{
	struct mt_compare_options options;
	int code;

	if (!mt_compare_options_read(argc, argv, &options, &code))
		return code;
	if (!options.path) {
		mt_error_say("compare: -o FILE is missing");
		return mt_command_misused("compare");
	}
	return compare(&options);
}
