/* ctl/cmd/trace.c -- `mtctl trace`: a recording, or the last minutes of a process, as a trace for
 * Perfetto. */
#include <stdio.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/metrics/chrome_trace.h"
#include "ctl/metrics/recording_source.h"
#include "ctl/output/outfile.h"

static const char help[] =
	"Writes what `mtctl record` has written, or the last 15 minutes of a PID, in the Trace\n"
	"Event Format of Chrome. Open it in https://ui.perfetto.dev or chrome://tracing: memory\n"
	"in its four parts and the memory of each GPU as counters, cleanups as slices with their\n"
	"reason, what they returned and what they cost, rounds and pressure as marks.\n\n"
	"  -o, --output=FILE  the trace, JSON; - or none: standard output\n";

int mt_command_trace(int argc, char **argv)
{
	const char *path = "-";
	const struct mt_option options[] = {
		{.name = "output", .target = &path, .take = mt_option_text, .letter = 'o'}, {0}};
	const struct mt_command_line line = {"trace", help, NULL, options, 1, 1};
	struct mt_recording recording;
	struct mt_error_reason why;
	FILE *file;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	code = mt_recording_of_source(argv[optind], &recording);
	if (code != MT_EXIT_OK)
		return code;
	/* it has command lines, as a recording has */
	if (mt_outfile_stream(path, 0600, &file, &why) != MT_ERR_OK) {
		code = mt_error_fail(MT_EXIT_USAGE, &why);
	} else {
		mt_chrome_trace_write(&recording, file);
		if (mt_outfile_finish(file, path, &why) != MT_ERR_OK)
			code = mt_error_fail(MT_EXIT_USAGE, &why);
	}
	mt_recording_free(&recording);
	return code;
}
