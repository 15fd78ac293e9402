/* ctl/ui/plot/plot.c -- `mtctl plot`: memory over time as a picture. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/ui/plot/picture.h"
#include "ctl/ui/plot/plotting.h"
#include "ctl/process/control_file.h"
#include "ctl/process/target.h"

static const char help[] =
	"RSS, live and idle heap over time, with rounds, cleanups by their level and what the "
	"largest brought, and\n"
	"pressure. Of a PID the last 15 minutes, as far as it remembers them; of a FILE what "
	"`mtctl record` or\n"
	"`mtctl stat PID --json` has written there.\n\n"
	"  -o, --output=FILE  the picture: .svg, .png or .pdf\n"
	"  --gpu              device memory as well, a field for each device; of a PID its pool, "
	"too: blocks by\n"
	"                     state, size and age. FILE may be what `mtctl snapshot PID --json` "
	"has printed\n"
	"  --since=DURATION   leave out what was before that time from the start (90, 90s, 5m, 2h, "
	"1d)\n"
	"  --last=DURATION    only the end\n"
	"  --pid=PID          of a recorded tree this one alone; without it all are added up\n"
	"  --clock            times of day; those of a PID always are, --no-clock: time since the "
	"start\n"
	"  --title=TEXT       instead of the command\n"
	"  --size=WxH         in pixels\n";

enum clock { CLOCK_PLAIN, CLOCK_YES, CLOCK_NO };

struct options {
	struct mt_picture_options picture;
	enum clock clock;
};

static bool take_option(int option, struct options *options)
{
	struct mt_picture_options *picture = &options->picture;

	switch (option) {
	case 'o':
		picture->path = optarg;
		return true;
	case 'g':
		picture->gpu = true;
		return true;
	case 's':
		return mt_plotting_parse_duration(optarg, &picture->since_s);
	case 'l':
		return mt_plotting_parse_duration(optarg, &picture->last_s);
	case 'p':
		if (mt_text_parse_u64(optarg, &picture->pid) && picture->pid)
			return true;
		mt_error_say("'%.60s' is not a process id", optarg);
		return false;
	case 't':
		picture->title = optarg;
		return true;
	case 'z':
		return mt_plotting_parse_size(optarg, &picture->width, &picture->height);
	case 'c':
	case 'n':
		options->clock = option == 'c' ? CLOCK_YES : CLOCK_NO;
		return true;
	default:
		return false;
	}
}

static enum mt_exit read_process(const char *pid, struct mt_recording *out)
{
	struct mt_target *target = mt_error_check_memory(malloc(sizeof(*target)));
	enum mt_exit code = mt_target_find(pid, &target->process);

	if (code == MT_EXIT_OK) {
		mt_control_file_refresh(&target->process);
		code = mt_target_open(pid, target);
	}
	if (code == MT_EXIT_OK)
		mt_recording_of_process(target, out);
	free(target);
	return code;
}

/* Left out for a process that has no pool, or does not reply. */
static bool read_pool_of(const char *pid, struct mt_pool_picture *out)
{
	struct mt_pool_snapshot *snapshot = mt_error_check_memory(calloc(1, sizeof(*snapshot)));
	struct mt_process process;
	struct mt_error_reason why;
	bool taken = mt_target_find(pid, &process) == MT_EXIT_OK &&
		     mt_pool_snapshot_take(&process, snapshot, &why) == MT_ERR_OK;

	if (taken) {
		mt_pool_picture_of(snapshot, out);
		mt_pool_snapshot_free(snapshot);
	}
	free(snapshot);
	return taken;
}

static int finish(enum mt_err error, const struct mt_error_reason *why)
{
	if (error)
		mt_error_say("%s", why->text);
	return error ? MT_EXIT_USAGE : MT_EXIT_OK;
}

static int plot_process(const char *pid, struct options *options)
{
	struct mt_recording recording = {0};
	struct mt_pool_picture pool = {0};
	struct mt_error_reason why;
	int code = read_process(pid, &recording);

	options->picture.as_clock = options->clock != CLOCK_NO;
	if (code == MT_EXIT_OK && options->picture.gpu && read_pool_of(pid, &pool))
		options->picture.pool = &pool;
	if (code == MT_EXIT_OK)
		code = finish(mt_picture_draw(&recording, &options->picture, &why), &why);
	mt_pool_picture_free(&pool);
	mt_recording_free(&recording);
	return code;
}

/* A file that is no recording may be a snapshot. If it is neither, the first error is reported. */
static int plot_file(const char *path, struct options *options)
{
	struct mt_recording recording;
	struct mt_pool_picture pool;
	struct mt_error_reason why, pool_why;
	enum mt_err error = mt_recording_read(path, &recording, &why);

	options->picture.as_clock = options->clock == CLOCK_YES;
	if (error && mt_pool_picture_read(path, &pool, &pool_why) == MT_ERR_OK) {
		error = mt_picture_draw_pool(&pool, &options->picture, &why);
		mt_pool_picture_free(&pool);
		return finish(error, &why);
	}
	if (error)
		return finish(error, &why);
	if (*recording.warning.text)
		mt_error_say("%s", recording.warning.text);
	error = mt_picture_draw(&recording, &options->picture, &why);
	mt_recording_free(&recording);
	return finish(error, &why);
}

int mt_plot_run(int argc, char **argv)
{
	static const struct option long_options[] = {{"output", required_argument, NULL, 'o'},
						     {"gpu", no_argument, NULL, 'g'},
						     {"since", required_argument, NULL, 's'},
						     {"last", required_argument, NULL, 'l'},
						     {"pid", required_argument, NULL, 'p'},
						     {"clock", no_argument, NULL, 'c'},
						     {"no-clock", no_argument, NULL, 'n'},
						     {"title", required_argument, NULL, 't'},
						     {"size", required_argument, NULL, 'z'},
						     {"help", no_argument, NULL, 'h'},
						     {0}};
	struct options options = {0};
	uint64_t number;
	int option;

	while ((option = mt_command_option(argc, argv, "ho:", long_options)) != -1) {
		if (option == 'h')
			return mt_command_help("plot", help);
		if (!take_option(option, &options))
			return MT_EXIT_USAGE;
	}
	if (optind + 1 != argc || !options.picture.path) {
		mt_error_say("plot: %s",
			     options.picture.path ? "one PID or FILE" : "-o FILE is missing");
		return mt_command_misused("plot");
	}
	/* A number is a PID, unless a file has that name. */
	return mt_text_parse_u64(argv[optind], &number) && access(argv[optind], F_OK) != 0
		       ? plot_process(argv[optind], &options)
		       : plot_file(argv[optind], &options);
}
