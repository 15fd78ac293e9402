/* ctl/cmd/export.c -- `mtctl export`: the figures of all shimmed processes as metrics, to stdout or
 * into a file for node_exporter. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/command.h"
#include "ctl/metrics/metric.h"
#include "ctl/metrics/openmetrics.h"
#include "ctl/process/process_list.h"
#include "ctl/metrics/textfile.h"

#define NAME_DEFAULT         "mtshim.prom"
#define INTERVAL_MIN_SECONDS 0.1

static const char help[] =
	"Exports the figures that the processes have last published; sends no request. Without\n"
	"--textfile they go to stdout, in OpenMetrics. (`mtctl serve` offers them to Prometheus\n"
	"itself.) Exports the 500 largest processes of the user; as root, of all users.\n\n"
	"  --textfile DIR      writes DIR/mtshim.prom for node_exporter's option\n"
	"                      --collector.textfile.directory, through a temporary file and a\n"
	"                      rename, so that no reader sees a part of it; mode 0644. Leaves\n"
	"                      a symbolic link, and a file of another user, as it is\n"
	"  --name FILE.prom    another name than mtshim.prom\n"
	"  --once              once, which is the default: for cron, or a timer of systemd\n"
	"  --interval=DURATION  repeats until SIGINT, SIGTERM or SIGHUP, and then removes the\n"
	"                      file\n"
	"  --format=old        on stdout, the text format 0.0.4, which DIR/mtshim.prom always\n"
	"                      has\n"
	"  --markdown          a table of all metrics\n";

struct export
{
	struct mt_textfile file; /* directory NULL: stdout */
	uint64_t every_ms;       /* 0: once */
	bool old, markdown, once;
};

static void print_markdown(void)
{
	size_t count;
	struct mt_metric *list = mt_openmetrics_families(&count);

	puts("| metric | type | labels | what it is |\n|---|---|---|---|");
	for (size_t i = 0; i < count; i++)
		printf("| `%s` | %s | %s | %s |\n", list[i].sample, mt_metric_type(list[i].type),
		       list[i].labels, list[i].help);
	free(list);
}

static char *read_all(bool old, size_t *bytes)
{
	struct mt_process_list processes;
	char *text;

	mt_process_list_read(MT_PROCESS_LIST_SHOWN, &processes);
	text = (old ? mt_openmetrics_render_old : mt_openmetrics_render)(&processes, bytes);
	mt_process_list_free(&processes);
	return text;
}

static void print_all(bool old)
{
	size_t bytes;
	char *text = read_all(old, &bytes);

	fwrite(text, 1, bytes, stdout);
	free(text);
}

static int write_once(const struct export *export, struct mt_error_reason *why)
{
	size_t bytes;
	char *text = read_all(true, &bytes);
	enum mt_err error = mt_textfile_write(&export->file, text, bytes, why);

	free(text);
	return error ? MT_EXIT_USAGE : MT_EXIT_OK;
}

/* A write that fails may succeed later (a full disk). Each reason is printed once. */
static int write_repeatedly(const struct export *export)
{
	const struct timespec pause = {.tv_sec = (time_t)(export->every_ms / 1000),
				       .tv_nsec = (long)(export->every_ms % 1000) * 1000000};
	struct mt_error_reason why = {""}, printed = {""};
	sigset_t endings = mt_command_block_endings();

	do {
		why.text[0] = '\0';
		if (write_once(export, &why) != MT_EXIT_OK && strcmp(why.text, printed.text) != 0)
			mt_error_say("%s", why.text);
		printed = why;
	} while (sigtimedwait(&endings, NULL, &pause) < 0 && (errno == EAGAIN || errno == EINTR));
	mt_textfile_remove(&export->file);
	return MT_EXIT_OK;
}

static bool take_format(const struct mt_option *option, const char *text)
{
	bool *old = option->target;

	*old = strcmp(text, "old") == 0;
	if (*old || strcmp(text, "openmetrics") == 0)
		return true;
	mt_error_say("the format is openmetrics or old, not '%.60s'", text);
	return false;
}

static int run(const struct export *export)
{
	struct mt_error_reason why;

	if (export->markdown) {
		print_markdown();
		return MT_EXIT_OK;
	}
	if (!export->file.directory) {
		print_all(export->old);
		return MT_EXIT_OK;
	}
	if (mt_textfile_check(&export->file, &why) != MT_ERR_OK ||
	    (!export->every_ms && write_once(export, &why) != MT_EXIT_OK))
		return mt_error_fail(MT_EXIT_USAGE, &why);
	return export->every_ms ? write_repeatedly(export) : MT_EXIT_OK;
}

int mt_command_export(int argc, char **argv)
{
	struct export export = {.file.name = NAME_DEFAULT};
	const struct mt_option options[] = {
		{.name = "textfile", .target = &export.file.directory, .take = mt_option_text},
		{.name = "name", .target = &export.file.name, .take = mt_option_text},
		{.name = "interval",
		 .target = &export.every_ms,
		 .take = mt_option_ms,
		 .min = INTERVAL_MIN_SECONDS},
		{.name = "once", .target = &export.once},
		{.name = "format", .target = &export.old, .take = take_format},
		{.name = "markdown", .target = &export.markdown},
		{0}};
	const struct mt_command_line line = {"export", help, NULL, options, 0, 0};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if ((!export.file.directory && (export.every_ms || export.once)) ||
	    (export.once && export.every_ms))
		return mt_command_misused("export");
	return run(&export);
}
