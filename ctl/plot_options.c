#include "ctl/plot_options.h"

#include <stdlib.h>

#include "ctl/command.h"
#include "ctl/output/text.h"

#define DURATION_MIN_SECONDS 0.001
#define DURATION_MAX_SECONDS (1000 * 86400.0)

static bool take_size(const struct mt_option *option, const char *text)
{
	struct mt_plot_size *size = option->target;
	char *by, *end;
	long width = strtol(text, &by, 10), height = *by == 'x' ? strtol(by + 1, &end, 10) : 0;

	if (*by != 'x' || end == by + 1 || *end || width < 300 || width > 8000 || height < 200 ||
	    height > 8000) {
		mt_error_say("--size=%.40s: WIDTHxHEIGHT, from 300x200 to 8000x8000 pixels", text);
		return false;
	}
	*size = (struct mt_plot_size){(double)width, (double)height};
	return true;
}

/* The pid of a recording, whose process may have ended long ago. */
static bool take_recorded_pid(const struct mt_option *option, const char *text)
{
	uint64_t *pid = option->target;

	if (mt_text_parse_u64(text, pid) && *pid)
		return true;
	mt_error_say("'%.60s' is not a process id", text);
	return false;
}

static bool take_label(const struct mt_option *option, const char *text)
{
	struct mt_compare_options *options = option->target;

	if (options->labels_count < MT_COMPARISON_MAX) {
		options->labels[options->labels_count++] = text;
		return true;
	}
	mt_error_say("more labels than can be compared: %u", MT_COMPARISON_MAX);
	return false;
}

bool mt_plot_options_read(int argc, char **argv, struct mt_plot_options *out, int *out_code)
{
	const struct mt_option options[] = {
		{.name = "output", .target = &out->path, .take = mt_option_text, .letter = 'o'},
		{.name = "gpu", .target = &out->gpu},
		{.name = "since",
		 .target = &out->since_s,
		 .take = mt_option_seconds,
		 .min = DURATION_MIN_SECONDS,
		 .max = DURATION_MAX_SECONDS},
		{.name = "last",
		 .target = &out->last_s,
		 .take = mt_option_seconds,
		 .min = DURATION_MIN_SECONDS,
		 .max = DURATION_MAX_SECONDS},
		{.name = "pid", .target = &out->pid, .take = take_recorded_pid},
		{.name = "clock", .target = &out->clock},
		{.name = "no-clock", .target = &out->no_clock},
		{.name = "title", .target = &out->title, .take = mt_option_text},
		{.name = "size", .target = &out->size, .take = take_size},
		{0}};
	const struct mt_command_line line = {"plot", NULL, options, 1, 1};

	*out = (struct mt_plot_options){0};
	if (!mt_command_line_read(&line, argc, argv, out_code))
		return false;
	out->source = argv[optind];
	return true;
}

bool mt_compare_options_read(int argc, char **argv, struct mt_compare_options *out, int *out_code)
{
	const struct mt_option options[] = {
		{.name = "output", .target = &out->path, .take = mt_option_text, .letter = 'o'},
		{.name = "json", .target = &out->json},
		{.name = "label", .target = out, .take = take_label},
		{.name = "title", .target = &out->title, .take = mt_option_text},
		{.name = "size", .target = &out->size, .take = take_size},
		{0}};
	const struct mt_command_line line = {"compare", NULL, options, 1, (int)MT_COMPARISON_MAX};

	*out = (struct mt_compare_options){0};
	if (!mt_command_line_read(&line, argc, argv, out_code))
		return false;
	out->files = &argv[optind];
	out->files_count = (size_t)(argc - optind);
	if (out->labels_count <= out->files_count)
		return true;
	mt_error_say("compare: more labels than files");
	*out_code = MT_EXIT_USAGE;
	return false;
}
