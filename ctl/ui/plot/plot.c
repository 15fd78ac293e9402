/* ctl/ui/plot/plot.c -- `mtctl plot`: memory over time as a picture. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/command.h"
#include "ctl/plot_options.h"
#include "ctl/ui/plot/picture.h"
#include "ctl/ui/plot/plotting.h"
#include "ctl/process/target.h"
#include "ctl/metrics/recording_source.h"

struct options {
	const struct mt_plot_options *wanted;
	struct mt_picture_options picture;
};

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
	int code = mt_recording_of_word(pid, &recording);

	options->picture.as_clock = !options->wanted->no_clock;
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

	options->picture.as_clock = options->wanted->clock && !options->wanted->no_clock;
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
	struct mt_plot_options wanted;
	struct options options = {.wanted = &wanted};
	int code;

	if (!mt_plot_options_read(argc, argv, &wanted, &code))
		return code;
	if (!wanted.path) {
		mt_error_say("plot: -o FILE is missing");
		return mt_command_misused("plot");
	}
	options.picture = (struct mt_picture_options){.path = wanted.path,
						      .title = wanted.title,
						      .width = wanted.size.width,
						      .height = wanted.size.height,
						      .since_s = wanted.since_s,
						      .last_s = wanted.last_s,
						      .pid = wanted.pid,
						      .gpu = wanted.gpu};
	return mt_recording_is_file(wanted.source) ? plot_file(wanted.source, &options)
						   : plot_process(wanted.source, &options);
}
