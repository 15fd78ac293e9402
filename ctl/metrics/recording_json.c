/* ctl/metrics/recording_json.c -- parses objects of a recording and of `mtctl stat --json`. */
#include <stdio.h>
#include <string.h>

#include "ctl/metrics/recorder.h"
#include "ctl/metrics/recording.h"
#include "ctl/process/figures.h"
#include "ctl/process/stats_json.h"

#define BYTES_MAX (UINT64_C(1) << 60)
#define TIME_MAX  (UINT64_C(1) << 62) /* the year 2116 */

/* ---- values ---- */

/* Returns true where it is missing or null. false: it is no whole number from 0 to `most`. */
static bool get(const json_t *object, const char *name, uint64_t most, uint64_t *out)
{
	const json_t *value = json_object_get(object, name);
	json_int_t number;

	if (!value || json_is_null(value))
		return true;
	number = json_integer_value(value);
	if (!json_is_integer(value) || number < 0 || (uint64_t)number > most)
		return false;
	*out = (uint64_t)number;
	return true;
}

static bool get_time(const json_t *object, uint64_t *out)
{
	*out = 0;
	return get(object, "time_ns", TIME_MAX, out) && *out;
}

static void get_text(const json_t *object, const char *name, char *out, size_t out_bytes)
{
	const char *text = json_string_value(json_object_get(object, name));

	if (!text)
		return;
	snprintf(out, out_bytes, "%s", text);
	mt_text_clean(out, out_bytes);
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

static const char *cleanup_word(uint64_t level)
{
	return mt_stats_word_level((uint32_t)level);
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
		if (!mt_recording_add_device(recording, &device))
			return mt_error_because(why, MT_ERR_RANGE, "more samples than can be read");
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
	mark.level = level_of(object, cleanup_word, MT_LEVEL_COUNT);
	mark.freed_bytes = freed(rss[MT_RECORDING_BEFORE], rss[MT_RECORDING_AFTER]);
	mark.gpu_freed_bytes = freed(gpu_before, gpu_after);
	get_text(object, "reason", mark.reason, sizeof(mark.reason));
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
	get_text(object, "comm", process->comm, sizeof(process->comm));
	get_text(object, "command", process->command, sizeof(process->command));
	get_text(object, "rank", process->rank, sizeof(process->rank));
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
	get_text(line, "host", recording->host, sizeof(recording->host));
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

enum mt_err mt_recording_take_line(struct mt_recording *recording, const json_t *line,
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

/* ---- mtctl stat --json ---- */

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

enum mt_err mt_recording_take_stat(struct mt_recording *recording, const json_t *stat,
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
	(void)mt_recording_take_stat(out, stat,
				     /* the process may publish nonsense: then there are no samples
				      */
				     &why);
	json_decref(stat);
	out->pid = (uint64_t)target->process.pid;
	process = mt_recording_add_process(out, out->pid);
	snprintf(process->command, sizeof(process->command), "%s", target->process.command);
	snprintf(out->name, sizeof(out->name), "%s %d", target->process.comm,
		 (int)target->process.pid);
	mt_recording_sort(out);
}
