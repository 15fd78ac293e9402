/* ctl/metrics/recording.c -- see recording.h: storage and order. */
#include "ctl/metrics/recording.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/control_file.h"
#include "ctl/process/read_file.h"

/* Makes room for one more element of `bytes`. Capacities are powers of two. */
static void *make_room(void *list, size_t count, size_t bytes)
{
	if (count & (count - 1) || count == 1)
		return list;
	return mt_error_check_memory(realloc(list, (count ? count * 2 : 2) * bytes));
}

bool mt_recording_add_sample(struct mt_recording *recording,
			     const struct mt_recording_sample *sample)
{
	if (recording->samples_count >= MT_RECORDING_SAMPLES_MAX)
		return false;
	recording->samples =
		make_room(recording->samples, recording->samples_count, sizeof(*sample));
	recording->samples[recording->samples_count++] = *sample;
	return true;
}

bool mt_recording_add_device(struct mt_recording *recording,
			     const struct mt_recording_device *device)
{
	if (recording->devices_count >= MT_RECORDING_SAMPLES_MAX)
		return false;
	recording->devices =
		make_room(recording->devices, recording->devices_count, sizeof(*device));
	recording->devices[recording->devices_count++] = *device;
	return true;
}

bool mt_recording_add_mark(struct mt_recording *recording, const struct mt_recording_mark *mark)
{
	if (recording->marks_count >= MT_RECORDING_MARKS_MAX)
		return false;
	recording->marks = make_room(recording->marks, recording->marks_count, sizeof(*mark));
	recording->marks[recording->marks_count++] = *mark;
	return true;
}

static struct mt_recording_process *find_process(const struct mt_recording *recording, uint64_t pid)
{
	for (size_t i = 0; i < recording->processes_count; i++)
		if (recording->processes[i].pid == pid)
			return &recording->processes[i];
	return NULL;
}

struct mt_recording_process *mt_recording_add_process(struct mt_recording *recording, uint64_t pid)
{
	struct mt_recording_process *process = find_process(recording, pid);

	if (process || recording->processes_count >= MT_RECORDING_PROCESSES_MAX)
		return process;
	recording->processes =
		make_room(recording->processes, recording->processes_count, sizeof(*process));
	process = &recording->processes[recording->processes_count++];
	*process = (struct mt_recording_process){.pid = pid};
	return process;
}

const struct mt_recording_process *mt_recording_process(const struct mt_recording *recording,
							uint64_t pid)
{
	return find_process(recording, pid);
}

static int by_time(const void *a, const void *b)
{
	uint64_t left, right;

	/* time_ns is the first member of samples and of devices */
	memcpy(&left, a, sizeof(left));
	memcpy(&right, b, sizeof(right));
	return (left > right) - (left < right);
}

static int marks_by_time(const void *a, const void *b)
{
	const struct mt_recording_mark *left = a, *right = b;

	if (left->time_ns != right->time_ns)
		return left->time_ns > right->time_ns ? 1 : -1;
	return (left->number > right->number) - (left->number < right->number);
}

static void sort(void *list, size_t count, size_t bytes, int (*compare)(const void *, const void *))
{
	for (size_t i = 1; i < count; i++)
		if (compare((const char *)list + (i - 1) * bytes, (const char *)list + i * bytes) >
		    0) {
			qsort(list, count, bytes, compare);
			return;
		}
}

void mt_recording_sort(struct mt_recording *recording)
{
	_Static_assert(offsetof(struct mt_recording_sample, time_ns) == 0,
		       "by_time reads it there");
	_Static_assert(offsetof(struct mt_recording_device, time_ns) == 0,
		       "by_time reads it there");
	sort(recording->samples, recording->samples_count, sizeof(*recording->samples), by_time);
	sort(recording->devices, recording->devices_count, sizeof(*recording->devices), by_time);
	sort(recording->marks, recording->marks_count, sizeof(*recording->marks), marks_by_time);
}

uint64_t mt_recording_begin_ns(const struct mt_recording *recording)
{
	return recording->samples_count ? recording->samples[0].time_ns : 0;
}

uint64_t mt_recording_end_ns(const struct mt_recording *recording)
{
	uint64_t sample_ns = recording->samples_count
				     ? recording->samples[recording->samples_count - 1].time_ns
				     : 0;
	uint64_t mark_ns =
		recording->marks_count ? recording->marks[recording->marks_count - 1].time_ns : 0;

	if (!sample_ns)
		return 0;
	if (mark_ns < recording->ended_ns)
		mark_ns = recording->ended_ns;
	return mark_ns > sample_ns ? mark_ns : sample_ns;
}

void mt_recording_free(struct mt_recording *recording)
{
	free(recording->processes);
	free(recording->samples);
	free(recording->devices);
	free(recording->marks);
	json_decref(recording->header);
	json_decref(recording->root);
	*recording = (struct mt_recording){0};
}

/* ---- recording source ---- */

/* Whether a file in the present directory is no recording: a program is often named there by its
 * script, "train.py". Only a regular file is read. */
static bool is_something_else(const char *word)
{
	size_t length = 0;
	char *first = mt_read_file_first(word, 1, &length);
	bool something_else = first && length && *first != '{';

	free(first);
	return something_else;
}

bool mt_recording_is_file(const char *word)
{
	if (strchr(word, '/') || mt_text_ends_with(word, ".jsonl") ||
	    mt_text_ends_with(word, ".json") || mt_text_ends_with(word, ".last"))
		return true;
	return access(word, F_OK) == 0 && !is_something_else(word);
}

enum mt_exit mt_recording_of_word(const char *word, struct mt_recording *out)
{
	struct mt_target *target = mt_error_check_memory(malloc(sizeof(*target)));
	enum mt_exit code = mt_target_find(word, &target->process);

	if (code == MT_EXIT_OK) {
		mt_control_file_refresh(&target->process);
		code = mt_target_load(target);
	}
	if (code == MT_EXIT_OK)
		mt_recording_of_process(target, out);
	free(target);
	return code;
}

void mt_recording_of_last_look(const struct mt_last_look *look, struct mt_recording *out)
{
	const struct mt_last_file *file = &look->file;
	struct mt_target *target = mt_error_check_memory(calloc(1, sizeof(*target)));

	target->file = file->stats;
	target->process = (struct mt_process){.pid = (pid_t)file->stats.head.pid, .shimmed = true};
	snprintf(target->process.comm, sizeof(target->process.comm), "%s", file->stats.head.comm);
	snprintf(target->process.command, sizeof(target->process.command), "%.*s",
		 (int)sizeof(target->process.command) - 1, file->head.command);
	mt_recording_of_process(target, out);
	free(target);
	if (look->fate == MT_LAST_RUNS)
		return;
	out->ended = out->killed = true;
	out->code = SIGKILL;
	out->ended_ns = file->head.time_ns;
}

static enum mt_exit of_last_look(const char *path, struct mt_recording *out)
{
	struct mt_last_look *look = mt_error_check_memory(malloc(sizeof(*look)));
	struct mt_error_reason why;
	enum mt_err error = mt_last_look_read(path, look, &why);

	if (!error)
		mt_recording_of_last_look(look, out);
	free(look);
	return error ? mt_error_fail(MT_EXIT_USAGE, &why) : MT_EXIT_OK;
}

enum mt_exit mt_recording_of_source(const char *word, struct mt_recording *out)
{
	struct mt_error_reason why;

	if (!mt_recording_is_file(word))
		return mt_recording_of_word(word, out);
	if (mt_last_look_is_file(word))
		return of_last_look(word, out);
	if (mt_recording_read(word, out, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	if (*out->warning.text)
		mt_error_say("%s", out->warning.text);
	return MT_EXIT_OK;
}

/* ---- recording read ---- */

/* Reads files: a recording line by line, or the output of `mtctl stat --json`, once or repeated
 * (--watch). */

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
