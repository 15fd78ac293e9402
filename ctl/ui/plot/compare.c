/* ctl/ui/plot/compare.c -- `mtctl compare`: recorded runs in one picture. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/command.h"
#include "ctl/ui/plot/comparison.h"
#include "ctl/ui/plot/plotting.h"

static const char help[] =
	"RSS (and device memory, where there is any) of several recordings, each from its own "
	"start, on the same\n"
	"scales, and below it a table of peak, mean, end and time. The first is what the others "
	"are held against:\n\n"
	"  mtctl record --no-shim -o before.jsonl -- python3 train.py\n"
	"  mtctl record -o after.jsonl -- python3 train.py\n"
	"  mtctl compare before.jsonl after.jsonl -o compared.svg\n\n"
	"  -o, --output=FILE  the picture: .svg, .png or .pdf\n"
	"  --label=TEXT       instead of the name of a file; once for each file, in their order\n"
	"  --title=TEXT       above it all\n"
	"  --size=WxH         in pixels\n";

static bool take_option(int option, struct mt_comparison_options *options, size_t *labels_count)
{
	switch (option) {
	case 'o':
		options->path = optarg;
		return true;
	case 't':
		options->title = optarg;
		return true;
	case 'z':
		return mt_plotting_parse_size(optarg, &options->width, &options->height);
	case 'l':
		if (*labels_count < MT_COMPARISON_MAX) {
			options->labels[(*labels_count)++] = optarg;
			return true;
		}
		mt_error_say("more labels than can be compared: %u", MT_COMPARISON_MAX);
		return false;
	default:
		return false;
	}
}

static int compare(char **paths, size_t count, const struct mt_comparison_options *options)
{
	struct mt_recording *runs = mt_error_check_memory(calloc(count, sizeof(*runs)));
	enum mt_err error = MT_ERR_OK;
	struct mt_error_reason why;
	size_t read = 0;

	for (; read < count && !error; read++) {
		error = mt_recording_read(paths[read], &runs[read], &why);
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
	static const struct option long_options[] = {
		{"output", required_argument, NULL, 'o'}, {"label", required_argument, NULL, 'l'},
		{"title", required_argument, NULL, 't'},  {"size", required_argument, NULL, 'z'},
		{"help", no_argument, NULL, 'h'},         {0}};
	struct mt_comparison_options options = {0};
	size_t labels_count = 0, count;
	int option;

	while ((option = mt_command_option(argc, argv, "ho:", long_options)) != -1) {
		if (option == 'h')
			return mt_command_help("compare", help);
		if (!take_option(option, &options, &labels_count))
			return MT_EXIT_USAGE;
	}
	count = (size_t)(argc - optind);
	if (!options.path || count < 1) {
		mt_error_say("compare: %s",
			     options.path ? "no recordings given" : "-o FILE is missing");
		return mt_command_misused("compare");
	}
	if (count > MT_COMPARISON_MAX || labels_count > count) {
		mt_error_say("compare: %s", labels_count > count ? "more labels than files"
								 : "twelve recordings at most");
		return MT_EXIT_USAGE;
	}
	return compare(&argv[optind], count, &options);
}
