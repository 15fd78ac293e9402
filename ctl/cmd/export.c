/* ctl/cmd/export.c -- `mtctl export`: the figures of all shimmed processes as metrics, to stdout,
 * into a file for node_exporter, or to a collector of OpenTelemetry. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl/channel/process_list.h"
#include "ctl/command.h"
#include "ctl/metrics/openmetrics.h"
#include "ctl/output/outfile.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"

/* ---- textfile ---- */

/* Writes a file for node_exporter's textfile collector atomically: a temporary file beside it,
 * then a rename. The collector reads only names that end with .prom, which the temporary one does
 * not. */
struct mt_textfile {
	const char *directory, *name;
};

#define NAME_MAX_BYTES 200u

/* Checks the name. INVALID: it has a slash, begins with a point or does not end with .prom. */
static enum mt_err textfile_check(const struct mt_textfile *file, struct mt_error_reason *why)
{
	size_t length = strlen(file->name);

	if (length > NAME_MAX_BYTES || strchr(file->name, '/') || *file->name == '.' ||
	    !mt_text_ends_with(file->name, ".prom"))
		return mt_error_because(why, MT_ERR_INVALID,
					"the name must be that of a file alone and end in .prom, "
					"which is what node_exporter reads");
	return MT_ERR_OK;
}

/* With a sticky bit (/tmp) others cannot replace our files. */
static enum mt_err open_directory(const char *path, int *out_fd, struct mt_error_reason *why)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &status) != 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", path, strerror(errno));
	if ((status.st_mode & S_IWOTH) && !(status.st_mode & S_ISVTX)) {
		close(fd);
		return mt_error_because(
			why, MT_ERR_FOREIGN,
			"%.200s: anybody may write there, and replace what we write", path);
	}
	*out_fd = fd;
	return MT_ERR_OK;
}

/* Checks what exists: nothing, or a file that may be replaced. */
static enum mt_err check_target(int directory, const struct mt_textfile *file,
				struct mt_error_reason *why)
{
	struct stat status;

	if (fstatat(directory, file->name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? MT_ERR_OK
				       : mt_error_because(why, MT_ERR_SYSTEM, "%s: %s", file->name,
							  strerror(errno));
	if (!S_ISREG(status.st_mode))
		return mt_error_because(why, MT_ERR_FOREIGN,
					"%s is there, and is a %s; it is left alone", file->name,
					S_ISLNK(status.st_mode) ? "symbolic link"
								: "thing that is no file");
	if (status.st_uid != geteuid())
		return mt_error_because(
			why, MT_ERR_FOREIGN,
			"%s is there, and belongs to another user; it is left alone", file->name);
	return MT_ERR_OK;
}

/* The temporary name has our pid: an existing file is left from a killed process with the same pid.
 */
static bool replace(int directory, const char *name, const char *text, size_t bytes)
{
	char temporary[NAME_MAX_BYTES + 32];
	bool done;
	int fd, kept;

	snprintf(temporary, sizeof(temporary), ".%s.%d", name, (int)getpid());
	(void)unlinkat(directory, temporary, 0);
	fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return false;
	done = mt_outfile_write(fd, text, bytes) == bytes && fchmod(fd, 0644) == 0;
	done = close(fd) == 0 && done && renameat(directory, temporary, directory, name) == 0;
	kept = errno;
	if (!done)
		(void)unlinkat(directory, temporary, 0);
	errno = kept;
	return done;
}

/* Writes the file with mode 0644. FOREIGN: anybody may replace files in the directory, or the
 * existing file is a link, no regular file, or another user's. SYSTEM: an error of the file system.
 */
static enum mt_err textfile_write(const struct mt_textfile *file, const char *text, size_t bytes,
				  struct mt_error_reason *why)
{
	int directory;
	enum mt_err error = open_directory(file->directory, &directory, why);

	if (error)
		return error;
	error = check_target(directory, file, why);
	if (!error && !replace(directory, file->name, text, bytes))
		error = mt_error_because(why, MT_ERR_SYSTEM, "%.200s: cannot write %s: %s",
					 file->directory, file->name, strerror(errno));
	close(directory);
	return error;
}

/* Removes the file: figures that are not updated must not stay. */
static void textfile_remove(const struct mt_textfile *file)
{
	struct mt_error_reason why;
	int directory;

	if (open_directory(file->directory, &directory, &why) != MT_ERR_OK)
		return;
	if (check_target(directory, file, &why) == MT_ERR_OK)
		(void)unlinkat(directory, file->name, 0);
	close(directory);
}

#define NAME_DEFAULT         "mtshim.prom"
#define INTERVAL_MIN_SECONDS 0.1

struct export
{
	struct mt_textfile file; /* directory NULL: stdout */
	uint64_t every_ms;       /* 0: once */
	bool old, markdown, once, otlp;
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
	text = mt_openmetrics_render(&processes,
				     old ? MT_EXPOSITION_TEXT : MT_EXPOSITION_OPENMETRICS, bytes);
	mt_process_list_free(&processes);
	return text;
}

static enum mt_err write_once(const struct export *export, struct mt_error_reason *why)
{
	struct mt_process_list processes;
	enum mt_err error;
	size_t bytes;
	char *text;

	if (export->otlp) {
		mt_process_list_read(MT_PROCESS_LIST_SHOWN, &processes);
		text = mt_otlp_body(&processes, mt_clock_realtime_ns());
		mt_process_list_free(&processes);
		error = mt_otlp_send(text, why);
	} else {
		text = read_all(true, &bytes);
		error = textfile_write(&export->file, text, bytes, why);
	}
	free(text);
	return error;
}

/* A write that fails may succeed later (a full disk). Each reason is printed once. */
static int write_repeatedly(const struct export *export)
{
	const struct timespec pause = {.tv_sec = (time_t)(export->every_ms / 1000),
				       .tv_nsec = (long)(export->every_ms % 1000) * 1000000};
	struct mt_error_reason why = {.text = ""}, printed = {.text = ""};
	sigset_t endings = mt_command_block_endings();

	do {
		why.text[0] = '\0';
		if (write_once(export, &why) && strcmp(why.text, printed.text) != 0)
			mt_error_say("%s", why.text);
		printed = why;
	} while (sigtimedwait(&endings, NULL, &pause) < 0 && (errno == EAGAIN || errno == EINTR));
	if (!export->otlp)
		textfile_remove(&export->file);
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
	enum mt_err error = MT_ERR_OK;

	if (export->markdown) {
		print_markdown();
		return MT_EXIT_OK;
	}
	if (!export->file.directory && !export->otlp) {
		size_t bytes;
		char *text = read_all(export->old, &bytes);

		fwrite(text, 1, bytes, stdout);
		free(text);
		return MT_EXIT_OK;
	}
	if (!export->otlp)
		error = textfile_check(&export->file, &why);
	if (!error && export->every_ms)
		return write_repeatedly(export);
	if (!error)
		error = write_once(export, &why);
	return error ? mt_error_fail(mt_error_exit(error), &why) : MT_EXIT_OK;
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
		{.name = "otlp", .target = &export.otlp},
		{.name = "once", .target = &export.once},
		{.name = "format", .target = &export.old, .take = take_format},
		{.name = "markdown", .target = &export.markdown},
		{0}};
	const struct mt_command_line line = {"export", NULL, options, 0, 0};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if ((!export.file.directory && !export.otlp && (export.every_ms || export.once)) ||
	    (export.file.directory && export.otlp) || (export.once && export.every_ms))
		return mt_command_misused("export");
	return run(&export);
}
