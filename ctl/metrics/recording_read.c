/* ctl/metrics/recording_read.c -- reads files: a recording line by line, or the output of `mtctl
 * stat --json`, once or repeated (--watch). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ctl/metrics/recording.h"
#include "ctl/process/read_file.h"

/* a line with the ring and all settings of a process has 0.3 MB */
#define LINE_MAX ((size_t)4 << 20)

struct reader {
	FILE *file;
	char *line;            /* room for LINE_MAX */
	size_t length, number; /* of the present line; the first line is 1 */
	bool ended;            /* with a newline */
};

enum line { LINE_READ, LINE_TOO_LONG, LINE_NONE };

static enum line next_line(struct reader *reader)
{
	int byte;

	reader->length = 0;
	reader->number++;
	while ((byte = getc_unlocked(reader->file)) != EOF && byte != '\n') {
		if (reader->length == LINE_MAX)
			return LINE_TOO_LONG;
		reader->line[reader->length++] = (char)byte;
	}
	reader->ended = byte == '\n';
	return reader->length || reader->ended ? LINE_READ : LINE_NONE;
}

static enum mt_err not_json(struct mt_error_reason *why, const json_error_t *error)
{
	char text[sizeof(error->text)];

	snprintf(text, sizeof(text), "%s", error->text);
	mt_text_clean(text, sizeof(text)); /* it quotes the file */
	return mt_error_because(why, MT_ERR_INVALID, "not JSON: %.120s", text);
}

static enum mt_err take(struct mt_recording *recording, const char *text, size_t length,
			struct mt_error_reason *why)
{
	json_error_t error;
	json_t *object = json_loadb(text, length, 0, &error);
	enum mt_err result;

	if (!object)
		return not_json(why, &error);
	if (!json_is_object(object))
		result = mt_error_because(why, MT_ERR_INVALID, "not an object");
	else if (json_object_get(object, "kind") &&
		 (recording->pid || json_object_get(object, "format")))
		result = mt_recording_take_line(recording, object, why);
	else
		result = mt_recording_take_stat(recording, object, why);
	json_decref(object);
	return result;
}

/* Reads up to the first invalid line. A last line without a newline is what a killed recorder
 * leaves. */
static enum mt_err read_lines(struct reader *reader, struct mt_recording *recording,
			      struct mt_error_reason *why)
{
	enum mt_err error = MT_ERR_OK;
	enum line got;

	while (!error && (got = next_line(reader)) != LINE_NONE) {
		if (got == LINE_TOO_LONG)
			error = mt_error_because(why, MT_ERR_INVALID,
						 "longer than any line of a recording");
		else if (reader->length)
			error = take(recording, reader->line, reader->length, why);
		else if (reader->number == 1)
			error = mt_error_because(why, MT_ERR_INVALID, "empty");
	}
	return error;
}

/* `mtctl stat --json` prints one object over many lines. */
static enum mt_err read_whole(const char *path, struct mt_recording *recording,
			      struct mt_error_reason *why)
{
	size_t length = 0;
	char *text = mt_read_file_stream(path, &length);
	enum mt_err error = text ? take(recording, text, length, why)
				 : mt_error_because(why, MT_ERR_SYSTEM, "%s", strerror(errno));

	free(text);
	return error;
}

static bool is_over_many_lines(const struct reader *reader)
{
	return reader->number == 1 && reader->length && reader->length < 3 &&
	       reader->line[0] == '{';
}

static enum mt_err read_file(struct reader *reader, const char *path, struct mt_recording *out,
			     struct mt_error_reason *why)
{
	struct mt_error_reason reason = {""};
	enum mt_err error = read_lines(reader, out, &reason);

	if (error && is_over_many_lines(reader)) {
		error = read_whole(path, out, &reason);
		return error ? mt_error_because(why, error, "%.150s: %s", path, reason.text)
			     : MT_ERR_OK;
	}
	if (!error && !out->pid)
		return mt_error_because(why, MT_ERR_INVALID, "%.150s: empty", path);
	if (!error)
		return MT_ERR_OK;
	if (!out->samples_count)
		return mt_error_because(why, MT_ERR_INVALID, "%.150s:%zu: %s", path, reader->number,
					reason.text);
	(void)mt_error_because(&out->warning, error, "%.150s:%zu: %s; read up to there", path,
			       reader->number, reason.text);
	return MT_ERR_OK;
}

static void name_after(const char *path, struct mt_recording *out)
{
	char *dot;

	snprintf(out->name, sizeof(out->name), "%s", mt_text_basename(path));
	dot = strrchr(out->name, '.');
	if (dot && dot != out->name)
		*dot = '\0';
	mt_text_clean(out->name, sizeof(out->name));
}

enum mt_err mt_recording_read(const char *path, struct mt_recording *out,
			      struct mt_error_reason *why)
{
	struct reader reader = {.file = fopen(path, "re")};
	struct stat status;
	enum mt_err error;

	*out = MT_RECORDING_EMPTY;
	if (!reader.file)
		return mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", path, strerror(errno));
	if (fstat(fileno(reader.file), &status) == 0 && S_ISDIR(status.st_mode)) {
		fclose(reader.file);
		return mt_error_because(why, MT_ERR_INVALID, "%.200s: a directory", path);
	}
	reader.line = mt_error_check_memory(malloc(LINE_MAX));
	name_after(path, out);
	error = read_file(&reader, path, out, why);
	free(reader.line);
	fclose(reader.file);
	if (!error && !out->samples_count)
		error = mt_error_because(why, MT_ERR_INVALID, "%.200s: no samples in it", path);
	if (error)
		mt_recording_free(out);
	else
		mt_recording_sort(out);
	return error;
}
