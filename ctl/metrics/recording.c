/* ctl/metrics/recording.c -- see recording.h: storage and order, the lines of a file, and which of
 * them a word names. */
#include "ctl/metrics/recording.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/channel/control_file.h"
#include "ctl/figures/figures.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

bool mt_recording_add_sample(struct mt_recording *recording,
			     const struct mt_recording_sample *sample)
{
	if (recording->samples_count >= MT_RECORDING_SAMPLES_MAX)
		return false;
	recording->samples =
		mt_error_make_room(recording->samples, recording->samples_count, sizeof(*sample));
	recording->samples[recording->samples_count++] = *sample;
	return true;
}

bool mt_recording_add_mark(struct mt_recording *recording, const struct mt_recording_mark *mark)
{
	if (recording->marks_count >= MT_RECORDING_MARKS_MAX)
		return false;
	recording->marks =
		mt_error_make_room(recording->marks, recording->marks_count, sizeof(*mark));
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
	recording->processes = mt_error_make_room(recording->processes, recording->processes_count,
						  sizeof(*process));
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

static void sort_all(struct mt_recording *recording)
{
	_Static_assert(offsetof(struct mt_recording_sample, time_ns) == 0,
		       "by_time reads it there");
	_Static_assert(offsetof(struct mt_recording_device, time_ns) == 0,
		       "by_time reads it there");
	sort(recording->samples, recording->samples_count, sizeof(*recording->samples), by_time);
	sort(recording->devices, recording->devices_count, sizeof(*recording->devices), by_time);
	sort(recording->marks, recording->marks_count, sizeof(*recording->marks), marks_by_time);
}

struct mt_memory_parts mt_recording_parts(const uint64_t *bytes)
{
	uint64_t rss = bytes[MT_RECORDING_RSS], anon = bytes[MT_RECORDING_ANON],
		 live = bytes[MT_RECORDING_LIVE], dirty = bytes[MT_RECORDING_DIRTY];

	if (live == MT_RECORDING_UNKNOWN)
		return mt_memory_parts_unknown(rss);
	return mt_memory_parts_of(
		&(struct mt_memory_figures){rss, anon == MT_RECORDING_UNKNOWN ? rss : anon, live,
					    dirty == MT_RECORDING_UNKNOWN ? 0 : dirty});
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

#define BYTES_MAX (UINT64_C(1) << 60)
#define TIME_MAX  (UINT64_C(1) << 62) /* the year 2116 */

/* ---- values ---- */

/* Returns true if it is missing or null. false: it is no whole number from 0 to `most`. */
static bool get(const json_t *object, const char *name, uint64_t most, uint64_t *out)
{
	const json_t *value = json_object_get(object, name);

	return !value || json_is_null(value) || mt_json_get_u64(object, name, most, out);
}

static bool get_time(const json_t *object, uint64_t *out)
{
	*out = 0;
	return get(object, "time_ns", TIME_MAX, out) && *out;
}

static enum mt_err invalid(struct mt_error_reason *why, const char *what)
{
	return mt_error_because(why, MT_ERR_INVALID, "%s makes no sense", what);
}

static uint64_t freed(uint64_t before, uint64_t after)
{
	return before != MT_RECORDING_UNKNOWN && after != MT_RECORDING_UNKNOWN && before > after
		       ? before - after
		       : 0;
}

static uint32_t level_of(const json_t *object, const char *(*word)(uint64_t), uint32_t count)
{
	const char *text = json_string_value(json_object_get(object, "level"));

	for (uint32_t level = 0; text && level < count; level++)
		if (strcmp(text, word(level)) == 0)
			return level;
	return 0;
}

/* ---- parts of both kinds of file ---- */

/* The name of a figure in the samples of the ring; one that they do not have is in no object. */
static const char *name_in_ring(const char *name)
{
	const struct mt_figure *figure = mt_figures(MT_FIGURES_SAMPLE);

	while (figure->name && strcmp(figure->label, name) != 0)
		figure++;
	return figure->name ? figure->name : "";
}

static bool read_sample(const json_t *object, bool ring, struct mt_recording_sample *out)
{
	static const char *const names[] = {
#define X(name, figure) #figure,
		MT_RECORDING_FIGURES(X)
#undef X
	};

	if (!get_time(object, &out->time_ns))
		return false;
	for (size_t i = 0; i < MT_RECORDING_FIGURES_COUNT; i++) {
		out->bytes[i] = MT_RECORDING_UNKNOWN;
		if (!get(object, ring ? name_in_ring(names[i]) : names[i], BYTES_MAX,
			 &out->bytes[i]))
			return false;
	}
	return true;
}

static enum mt_err take_devices(struct mt_recording *recording, const json_t *object,
				const struct mt_recording_sample *sample,
				struct mt_error_reason *why)
{
	const json_t *list = json_object_get(object, "devices"), *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		struct mt_recording_device device = {.time_ns = sample->time_ns,
						     .pid = sample->pid};

		if (!get(one, "ordinal", MT_DEVICES_COUNT - 1, &device.ordinal) ||
		    !get(one, "allocated_bytes", BYTES_MAX, &device.allocated_bytes) ||
		    !get(one, "reserved_bytes", BYTES_MAX, &device.reserved_bytes))
			return invalid(why, "a device");
		if (recording->devices_count >= MT_RECORDING_SAMPLES_MAX)
			return mt_error_because(why, MT_ERR_RANGE, "more samples than can be read");
		recording->devices = mt_error_make_room(recording->devices,
							recording->devices_count, sizeof(device));
		recording->devices[recording->devices_count++] = device;
	}
	return MT_ERR_OK;
}

/* A merged cleanup is left out: the one that did its work counts. */
static enum mt_err take_cleanup(struct mt_recording *recording, const json_t *object, uint64_t pid,
				struct mt_error_reason *why)
{
	struct mt_recording_mark mark = {.kind = MT_RECORDING_CLEANUP, .pid = pid};
	uint64_t *rss = mark.rss_bytes, *live = mark.live_bytes, *anon = mark.anon_bytes;
	uint64_t gpu_before = MT_RECORDING_UNKNOWN, gpu_after = MT_RECORDING_UNKNOWN;

	rss[0] = rss[1] = live[0] = live[1] = anon[0] = anon[1] = MT_RECORDING_UNKNOWN;
	if (!get_time(object, &mark.time_ns) || !get(object, "number", INT64_MAX, &mark.number) ||
	    !get(object, "duration_ns", TIME_MAX, &mark.duration_ns) ||
	    !get(object, "gc_wait_ns", TIME_MAX, &mark.gc_wait_ns) ||
	    !get(object, "rss_before_bytes", BYTES_MAX, &rss[MT_RECORDING_BEFORE]) ||
	    !get(object, "rss_after_bytes", BYTES_MAX, &rss[MT_RECORDING_AFTER]) ||
	    !get(object, "anon_before_bytes", BYTES_MAX, &anon[MT_RECORDING_BEFORE]) ||
	    !get(object, "anon_after_bytes", BYTES_MAX, &anon[MT_RECORDING_AFTER]) ||
	    !get(object, "live_before_bytes", BYTES_MAX, &live[MT_RECORDING_BEFORE]) ||
	    !get(object, "live_after_bytes", BYTES_MAX, &live[MT_RECORDING_AFTER]) ||
	    !get(object, "gpu_before_bytes", BYTES_MAX, &gpu_before) ||
	    !get(object, "gpu_after_bytes", BYTES_MAX, &gpu_after))
		return invalid(why, "a cleanup");
	if (json_is_true(json_object_get(object, "merged")))
		return MT_ERR_OK;
	/* 0: it could not be read, and the value after it means nothing */
	if (!rss[MT_RECORDING_BEFORE])
		rss[MT_RECORDING_BEFORE] = rss[MT_RECORDING_AFTER] = MT_RECORDING_UNKNOWN;
	mark.level = level_of(object, mt_stats_word_level, MT_LEVEL_COUNT);
	mark.freed_bytes = freed(rss[MT_RECORDING_BEFORE], rss[MT_RECORDING_AFTER]);
	mark.gpu_freed_bytes = freed(gpu_before, gpu_after);
	mark.is_late = json_is_integer(json_object_get(object, "late_of"));
	mt_json_get_text(object, "reason", mark.reason, sizeof(mark.reason));
	mt_json_get_text(object, "gc_text", mark.gc, sizeof(mark.gc));
	return mt_recording_add_mark(recording, &mark)
		       ? MT_ERR_OK
		       : mt_error_because(why, MT_ERR_RANGE, "more marks than can be read");
}

static void keep(json_t **kept, const json_t *object)
{
	json_decref(*kept);
	*kept = json_incref((json_t *)(uintptr_t)object);
}

static void take_process(struct mt_recording *recording, const json_t *object, uint64_t pid)
{
	struct mt_recording_process *process = mt_recording_add_process(recording, pid);

	if (!process)
		return;
	mt_json_get_text(object, "comm", process->comm, sizeof(process->comm));
	mt_json_get_text(object, "command", process->command, sizeof(process->command));
	mt_json_get_text(object, "rank", process->rank, sizeof(process->rank));
	mt_json_get_text(object, "state", process->state, sizeof(process->state));
	mt_json_get_text(object, "why", process->why, sizeof(process->why));
	(void)mt_json_get_u64(object, "program_ns", UINT64_MAX, &process->program_ns);
	if (pid == recording->pid && json_object_get(object, "settings"))
		keep(&recording->root, object);
}

/* ---- lines ---- */

static enum mt_err take_header(struct mt_recording *recording, const json_t *line,
			       struct mt_error_reason *why)
{
	const char *format = json_string_value(json_object_get(line, "format"));
	uint64_t version = 0;

	if (!format || strcmp(format, MT_RECORDER_FORMAT) != 0)
		return mt_error_because(why, MT_ERR_INVALID, "not a recording");
	if (!get(line, "version", INT64_MAX, &version) || version != MT_RECORDER_VERSION)
		return mt_error_because(why, MT_ERR_INVALID,
					"a recording of version %lu, this mtctl reads version %d; "
					"use the one that wrote it",
					(unsigned long)version, MT_RECORDER_VERSION);
	if (recording->pid)
		return mt_error_because(why, MT_ERR_INVALID, "another recording begins here");
	if (!get(line, "pid", INT32_MAX, &recording->pid) || !recording->pid)
		return invalid(why, "the header");
	mt_json_get_text(line, "host", recording->host, sizeof(recording->host));
	keep(&recording->header, line);
	take_process(recording, line, recording->pid);
	return MT_ERR_OK;
}

/* An exec does not reset the time; a smaller figure is that of another process. */
static void note_cpu(struct mt_recording *recording, uint64_t cpu_ns)
{
	if (cpu_ns == MT_RECORDING_UNKNOWN)
		return;
	if (recording->cpu_first_ns == MT_RECORDING_UNKNOWN)
		recording->cpu_first_ns = cpu_ns;
	if (cpu_ns >= recording->cpu_first_ns)
		recording->cpu_ns = cpu_ns - recording->cpu_first_ns;
}

static enum mt_err take_sample(struct mt_recording *recording, const json_t *line, uint64_t pid,
			       struct mt_error_reason *why)
{
	struct mt_recording_sample sample = {.pid = pid};
	uint64_t peak = 0, cpu_ns = MT_RECORDING_UNKNOWN;
	enum mt_err error;

	if (!read_sample(line, false, &sample) ||
	    sample.bytes[MT_RECORDING_RSS] == MT_RECORDING_UNKNOWN ||
	    !get(line, "rss_peak_bytes", BYTES_MAX, &peak) ||
	    !get(line, "cpu_ns", TIME_MAX, &cpu_ns))
		return invalid(why, "a sample");
	if (pid == recording->pid)
		note_cpu(recording, cpu_ns);
	if (pid == recording->pid && peak > recording->rss_peak_bytes)
		recording->rss_peak_bytes = peak;
	error = take_devices(recording, line, &sample, why);
	if (!error && !mt_recording_add_sample(recording, &sample))
		error = mt_error_because(why, MT_ERR_RANGE, "more samples than can be read");
	return error;
}

static enum mt_err take_mark(struct mt_recording *recording, const json_t *line,
			     struct mt_recording_mark mark, struct mt_error_reason *why)
{
	if (!get_time(line, &mark.time_ns) || !get(line, "number", INT64_MAX, &mark.number))
		return invalid(why, mark.kind == MT_RECORDING_ROUND ? "a round"
								    : "a change of pressure");
	if (mark.kind == MT_RECORDING_PRESSURE)
		mark.level = level_of(line, mt_stats_word_pressure_level, MT_PRESSURE_LEVEL_COUNT);
	return mt_recording_add_mark(recording, &mark)
		       ? MT_ERR_OK
		       : mt_error_because(why, MT_ERR_RANGE, "more marks than can be read");
}

static enum mt_err take_end(struct mt_recording *recording, const json_t *line,
			    struct mt_error_reason *why)
{
	uint64_t code = MT_RECORDING_UNKNOWN, signal = MT_RECORDING_UNKNOWN;

	if (!get(line, "exit_code", 255, &code) || !get(line, "signal", 255, &signal) ||
	    !get(line, "cpu_ns", TIME_MAX, &recording->cpu_ns) ||
	    !get(line, "time_ns", TIME_MAX, &recording->ended_ns))
		return invalid(why, "an end");
	recording->killed = signal != MT_RECORDING_UNKNOWN;
	recording->ended = recording->killed || code != MT_RECORDING_UNKNOWN;
	recording->code = recording->killed ? signal : code;
	return MT_ERR_OK;
}

static enum mt_err take_lost(struct mt_recording *recording, const json_t *line,
			     struct mt_error_reason *why)
{
	uint64_t lines = 0, records = 0;

	if (!get(line, "lines_count", UINT32_MAX, &lines) ||
	    !get(line, "records_count", UINT32_MAX, &records))
		return invalid(why, "a count of what is lost");
	recording->lost_count += lines + records;
	return MT_ERR_OK;
}

static enum mt_err take_line(struct mt_recording *recording, const json_t *line,
			     struct mt_error_reason *why)
{
	const char *kind = json_string_value(json_object_get(line, "kind"));
	uint64_t pid = 0;

	if (!kind || !get(line, "pid", INT32_MAX, &pid))
		return invalid(why, "a line without a kind, or with such a pid,");
	if (strcmp(kind, "header") == 0)
		return take_header(recording, line, why);
	if (strcmp(kind, "sample") == 0)
		return take_sample(recording, line, pid, why);
	if (strcmp(kind, "cleanup") == 0)
		return take_cleanup(recording, line, pid, why);
	if (strcmp(kind, "round") == 0)
		return take_mark(recording, line,
				 (struct mt_recording_mark){.kind = MT_RECORDING_ROUND, .pid = pid},
				 why);
	if (strcmp(kind, "pressure") == 0)
		return take_mark(
			recording, line,
			(struct mt_recording_mark){.kind = MT_RECORDING_PRESSURE, .pid = pid}, why);
	if (strcmp(kind, "lost") == 0)
		return take_lost(recording, line, why);
	if (strcmp(kind, "end") == 0 && pid == recording->pid)
		return take_end(recording, line, why);
	if (strcmp(kind, "process") == 0)
		take_process(recording, line, pid);
	return MT_ERR_OK;
}

/* ---- what mtctl stat --json prints ---- */

/* The ring has no lines for rounds and pressure: they are where its samples differ. */
static void mark_changes(struct mt_recording *recording, const json_t *before, const json_t *now,
			 uint64_t time_ns)
{
	static const char rounds[] = "rounds_count", level[] = "pressure_level";
	struct mt_recording_mark mark = {.time_ns = time_ns, .pid = recording->pid};
	uint64_t was = 0, is = 0;

	if (before && get(before, rounds, INT64_MAX, &was) && get(now, rounds, INT64_MAX, &is) &&
	    is > was) {
		mark.kind = MT_RECORDING_ROUND;
		mark.number = is;
		(void)mt_recording_add_mark(recording, &mark);
	}
	was = is = 0;
	if ((!before || get(before, level, MT_PRESSURE_LEVEL_COUNT - 1, &was)) &&
	    get(now, level, MT_PRESSURE_LEVEL_COUNT - 1, &is) && is != was) {
		mark.kind = MT_RECORDING_PRESSURE;
		mark.number = 0;
		mark.level = (uint32_t)is;
		(void)mt_recording_add_mark(recording, &mark);
	}
}

static enum mt_err take_ring(struct mt_recording *recording, const json_t *stat, uint64_t after_ns,
			     struct mt_error_reason *why)
{
	const json_t *one, *before = NULL;
	size_t i;

	json_array_foreach(json_object_get(stat, "samples"), i, one)
	{
		struct mt_recording_sample sample = {.pid = recording->pid};

		if (!read_sample(one, true, &sample) ||
		    sample.bytes[MT_RECORDING_RSS] == MT_RECORDING_UNKNOWN)
			return invalid(why, "a sample");
		if (sample.time_ns > after_ns) {
			(void)mt_recording_add_sample(recording, &sample);
			mark_changes(recording, before, one, sample.time_ns);
		}
		before = one;
	}
	return MT_ERR_OK;
}

static uint64_t last_sample_ns(const struct mt_recording *recording)
{
	return recording->samples_count ? recording->samples[recording->samples_count - 1].time_ns
					: 0;
}

static enum mt_err take_stat(struct mt_recording *recording, const json_t *stat,
			     struct mt_error_reason *why)
{
	uint64_t after_ns = last_sample_ns(recording), pid = 0, time_ns;
	struct mt_recording_sample now = {0};
	enum mt_err error;
	const json_t *one;
	size_t i;

	if (!json_is_array(json_object_get(stat, "samples")) ||
	    !get(stat, "pid", INT32_MAX, &pid) || !pid)
		return mt_error_because(why, MT_ERR_INVALID,
					"neither a recording nor what mtctl stat --json prints");
	if (recording->pid && recording->pid != pid)
		return mt_error_because(why, MT_ERR_INVALID, "another process");
	recording->pid = now.pid = pid;
	take_process(recording, stat, pid);
	error = take_ring(recording, stat, after_ns, why);
	json_array_foreach(json_object_get(stat, "records"), i,
			   one) if (!error && get_time(one, &time_ns) && time_ns > after_ns) error =
		take_cleanup(recording, one, pid, why);
	/* The present values: a process at rest writes no samples. */
	if (!error && read_sample(stat, false, &now) &&
	    now.bytes[MT_RECORDING_RSS] != MT_RECORDING_UNKNOWN &&
	    now.time_ns > last_sample_ns(recording)) {
		(void)mt_recording_add_sample(recording, &now);
		error = take_devices(recording, stat, &now, why);
	}
	return error;
}

void mt_recording_of_process(const struct mt_target *target, struct mt_recording *out)
{
	struct mt_recording_process *process;
	json_t *stat = mt_stats_json(target);
	struct mt_error_reason why;

	*out = MT_RECORDING_EMPTY;
	(void)take_stat(out, stat,
			/* the process may publish nonsense: then there are no samples
				      */
			&why);
	json_decref(stat);
	out->pid = (uint64_t)target->process.pid;
	process = mt_recording_add_process(out, out->pid);
	snprintf(process->command, sizeof(process->command), "%s", target->process.command);
	snprintf(out->name, sizeof(out->name), "%s %d", target->process.comm,
		 (int)target->process.pid);
	sort_all(out);
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

static enum mt_exit of_process(const char *word, struct mt_recording *out)
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

/* The last sample is of the time of the file. */
static void add_last_sample(const struct mt_last_file *file, struct mt_recording *recording)
{
	const struct mt_stats_snapshot *now = &file->stats.head.snapshot;
	struct mt_recording_sample sample = {.time_ns = file->head.time_ns,
					     .pid = file->stats.head.pid};

	sample.bytes[MT_RECORDING_RSS] = file->head.rss_bytes;
	sample.bytes[MT_RECORDING_ANON] = file->head.anon_bytes;
	sample.bytes[MT_RECORDING_LIVE] = now->heap_live_bytes;
	sample.bytes[MT_RECORDING_DIRTY] = now->heap_dirty_bytes;
	sample.bytes[MT_RECORDING_IDLE] = now->heap_idle_bytes;
	sample.bytes[MT_RECORDING_SHMEM] = file->head.shmem_bytes;
	sample.bytes[MT_RECORDING_GPU_ALLOCATED] = now->gpu_allocated_bytes;
	sample.bytes[MT_RECORDING_GPU_RESERVED] = now->gpu_reserved_bytes;
	(void)mt_recording_add_sample(recording, &sample);
	sort_all(recording);
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
	add_last_sample(file, out);
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
		return of_process(word, out);
	if (mt_last_look_is_file(word))
		return of_last_look(word, out);
	if (mt_recording_read(word, out, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	if (*out->warning.text)
		mt_error_say("%s", out->warning.text);
	return MT_EXIT_OK;
}

/* ---- recording read ---- */

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
		result = take_line(recording, object, why);
	else
		result = take_stat(recording, object, why);
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

static enum mt_err read_file(struct reader *reader, const char *path, struct mt_recording *out,
			     struct mt_error_reason *why)
{
	struct mt_error_reason reason = {.text = ""};
	enum mt_err error = read_lines(reader, out, &reason);

	/* one object over many lines */
	if (error && reader->number == 1 && reader->length && reader->length < 3 &&
	    reader->line[0] == '{') {
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
		sort_all(out);
	return error;
}
