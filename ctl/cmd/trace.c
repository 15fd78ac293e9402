/* ctl/cmd/trace.c -- `mtctl trace`: a recording, or the last minutes of a process, as a trace for
 * Perfetto. */
#include <inttypes.h>
#include <stdio.h>

#include "ctl/command.h"
#include "ctl/figures/figures.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/metrics/recording.h"
#include "ctl/output/json.h"
#include "ctl/output/outfile.h"
#include "ctl/output/text.h"
#include "sys/saturating.h"

/* ---- chrome trace ---- */

/* Writes a recording in the Trace Event Format of Chrome (JSON object form), which Perfetto and
 * chrome://tracing open. Counters are the four parts of resident memory and device memory,
 * complete events are cleanups, instant events are rounds and changes of pressure. Pure, but for
 * the file. */

/* Tracks of a process. The format has threads; these are tracks with a name. */
enum track { TRACK_MEMORY, TRACK_CLEANUPS, TRACK_ROUNDS, TRACK_PRESSURE, TRACKS_COUNT };

struct trace {
	const struct mt_recording *recording;
	FILE *to;
	uint64_t origin_ns;
	bool has_events;
};

/* Writes one event without jansson's tree of all: a recording may have millions of samples. Takes
 * the objects over. */
static void write_event(struct trace *trace, json_t *event, uint64_t pid, enum track track,
			json_t *args)
{
	mt_json_set_u64(event, "pid", pid);
	mt_json_set_u64(event, "tid", track);
	mt_json_set(event, "args", args);
	fputs(trace->has_events ? ",\n" : "\n", trace->to);
	json_dumpf(event, trace->to, JSON_COMPACT | JSON_REAL_PRECISION(15));
	json_decref(event);
	trace->has_events = true;
}

static json_t *event_of(const struct trace *trace, const char *phase, const char *name,
			uint64_t time_ns)
{
	json_t *event = json_object();

	mt_json_set_text(event, "ph", phase);
	mt_json_set_text(event, "name", name);
	/* microseconds, with nanoseconds as their fraction */
	mt_json_set(event, "ts", json_real((double)mt_sat_sub(time_ns, trace->origin_ns) / 1000));
	return event;
}

/* ---- metadata ---- */

static void write_name(struct trace *trace, const char *kind, const char *name, uint64_t pid,
		       enum track track)
{
	json_t *event = event_of(trace, "M", kind, 0), *args = json_object();

	mt_json_set_text(args, "name", name);
	write_event(trace, event, pid, track, args);
}

static void write_process(struct trace *trace, const struct mt_recording_process *process)
{
	static const char *const tracks[TRACKS_COUNT] = {"memory", "cleanups", "rounds",
							 "pressure"};
	json_t *event = event_of(trace, "M", "process_labels", 0), *args = json_object();
	char label[192];

	write_name(trace, "process_name", *process->comm ? process->comm : "?", process->pid, 0);
	snprintf(label, sizeof(label), "%s%s%s", process->command, *process->rank ? ", rank " : "",
		 process->rank);
	mt_json_set_text(args, "labels", label);
	write_event(trace, event, process->pid, 0, args);
	for (int i = 0; i < TRACKS_COUNT; i++)
		write_name(trace, "thread_name", tracks[i], process->pid, (enum track)i);
}

/* ---- counters ---- */

static void write_counter(struct trace *trace, const char *name, uint64_t time_ns, uint64_t pid,
			  json_t *args)
{
	write_event(trace, event_of(trace, "C", name, time_ns), pid, TRACK_MEMORY, args);
}

/* Of a process whose heap is not known (asleep, without the shim) RSS alone. */
static json_t *memory_args(const struct mt_recording_sample *sample)
{
	const struct mt_memory_parts parts = mt_recording_parts(sample->bytes);
	json_t *args;

	if (sample->bytes[MT_RECORDING_LIVE] != MT_RECORDING_UNKNOWN)
		return mt_memory_parts_json(&parts);
	args = json_object();
	mt_json_set_u64(args, "rss_bytes", sample->bytes[MT_RECORDING_RSS]);
	return args;
}

/* Viewers stack the series of a counter, so that the second one is what reserved bytes are more. */
static json_t *gpu_args(uint64_t allocated_bytes, uint64_t reserved_bytes)
{
	json_t *args = json_object();

	mt_json_set_u64(args, "allocated_bytes", allocated_bytes);
	mt_json_set_u64(args, "kept_bytes", mt_sat_sub(reserved_bytes, allocated_bytes));
	return args;
}

static void write_sample(struct trace *trace, const struct mt_recording_sample *sample)
{
	const uint64_t *bytes = sample->bytes;
	bool has_heap = bytes[MT_RECORDING_LIVE] != MT_RECORDING_UNKNOWN;
	uint64_t reserved = bytes[MT_RECORDING_GPU_RESERVED],
		 allocated = bytes[MT_RECORDING_GPU_ALLOCATED];

	if (bytes[MT_RECORDING_RSS] != MT_RECORDING_UNKNOWN)
		write_counter(trace, has_heap ? "memory" : "RSS", sample->time_ns, sample->pid,
			      memory_args(sample));
	if (reserved != MT_RECORDING_UNKNOWN && allocated != MT_RECORDING_UNKNOWN &&
	    !trace->recording->devices_count && (reserved || allocated))
		write_counter(trace, "GPU, all devices", sample->time_ns, sample->pid,
			      gpu_args(allocated, reserved));
}

/* ---- events ---- */

static void set_known(json_t *args, const char *name, uint64_t value)
{
	if (value != MT_RECORDING_UNKNOWN)
		mt_json_set_u64(args, name, value);
}

static void write_cleanup(struct trace *trace, const struct mt_recording_mark *mark)
{
	static const char *const names[MT_LEVEL_COUNT] = {"purge", "light cleanup",
							  "heavy cleanup"};
	json_t *event = event_of(trace, "X", names[mark->level], mark->time_ns),
	       *args = json_object();
	uint64_t wait_ns =
		mark->gc_wait_ns < mark->duration_ns ? mark->gc_wait_ns : mark->duration_ns;

	mt_json_set_text(event, "cat", "cleanup");
	mt_json_set(event, "dur", json_real((double)mark->duration_ns / 1000));
	mt_json_set_u64(args, "number", mark->number);
	mt_json_set_text(args, "reason", *mark->reason ? mark->reason : "?");
	mt_json_set_u64(args, "freed_bytes", mark->freed_bytes);
	set_known(args, "rss_before_bytes", mark->rss_bytes[MT_RECORDING_BEFORE]);
	set_known(args, "rss_after_bytes", mark->rss_bytes[MT_RECORDING_AFTER]);
	set_known(args, "live_before_bytes", mark->live_bytes[MT_RECORDING_BEFORE]);
	set_known(args, "live_after_bytes", mark->live_bytes[MT_RECORDING_AFTER]);
	mt_json_set_u64(args, "cost_ns", mark->duration_ns - wait_ns);
	mt_json_set_u64(args, "gc_wait_ns", wait_ns);
	if (mark->gpu_freed_bytes)
		mt_json_set_u64(args, "gpu_freed_bytes", mark->gpu_freed_bytes);
	write_event(trace, event, mark->pid, TRACK_CLEANUPS, args);
}

static void write_instant(struct trace *trace, const struct mt_recording_mark *mark)
{
	bool is_round = mark->kind == MT_RECORDING_ROUND;
	json_t *args = json_object(), *event;
	char name[40];

	if (is_round)
		snprintf(name, sizeof(name), "round %" PRIu64, mark->number);
	else
		snprintf(name, sizeof(name), "pressure: %s",
			 mt_stats_word_pressure_level(mark->level));
	event = event_of(trace, "i", name, mark->time_ns);
	mt_json_set_text(event, "cat", is_round ? "round" : "pressure");
	mt_json_set_text(event, "s", "p"); /* a line across the process */
	if (is_round)
		mt_json_set_u64(args, "number", mark->number);
	write_event(trace, event, mark->pid, is_round ? TRACK_ROUNDS : TRACK_PRESSURE, args);
}

static void write_about(const struct trace *trace)
{
	json_t *about = json_object();

	mt_json_set_text(about, "source", "mtctl " MT_VERSION);
	mt_json_set_text(about, "host", trace->recording->host);
	/* of ts 0, CLOCK_REALTIME */
	mt_json_set_u64(about, "start_time_ns", trace->origin_ns);
	fputs("\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":", trace->to);
	json_dumpf(about, trace->to, JSON_COMPACT);
	json_decref(about);
	fputs("}\n", trace->to);
}

/* A ring has older cleanups than samples. */
static uint64_t first_ns(const struct mt_recording *recording)
{
	uint64_t first = mt_recording_begin_ns(recording);

	if (recording->marks_count && (!first || recording->marks[0].time_ns < first))
		first = recording->marks[0].time_ns;
	return first;
}

/* Writes the trace. Times are microseconds since the first event, so that a double holds their
 * fraction. The caller checks `to` for errors (ferror(3)). */
static void chrome_trace_write(const struct mt_recording *recording, FILE *to)
{
	struct trace trace = {.recording = recording, .to = to, .origin_ns = first_ns(recording)};

	fputs("{\"traceEvents\":[", to);
	for (size_t i = 0; i < recording->processes_count; i++)
		write_process(&trace, &recording->processes[i]);
	for (size_t i = 0; i < recording->samples_count; i++)
		write_sample(&trace, &recording->samples[i]);
	for (size_t i = 0; i < recording->devices_count; i++) {
		const struct mt_recording_device *device = &recording->devices[i];

		write_counter(&trace, mt_text_format("GPU %" PRIu64, device->ordinal).text,
			      device->time_ns, device->pid,
			      gpu_args(device->allocated_bytes, device->reserved_bytes));
	}
	for (size_t i = 0; i < recording->marks_count; i++)
		(recording->marks[i].kind == MT_RECORDING_CLEANUP ? write_cleanup : write_instant)(
			&trace, &recording->marks[i]);
	write_about(&trace);
}

int mt_command_trace(int argc, char **argv)
{
	const char *path = "-";
	const struct mt_option options[] = {
		{.name = "output", .target = &path, .take = mt_option_text, .letter = 'o'}, {0}};
	const struct mt_command_line line = {"trace", NULL, options, 1, 1};
	struct mt_recording recording;
	struct mt_error_reason why;
	FILE *file;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	code = mt_recording_of_source(argv[optind], &recording);
	if (code != MT_EXIT_OK)
		return code;
	/* it has command lines, as a recording has */
	if (mt_outfile_stream(path, 0600, &file, &why) != MT_ERR_OK) {
		code = mt_error_fail(MT_EXIT_USAGE, &why);
	} else {
		chrome_trace_write(&recording, file);
		if (mt_outfile_finish(file, path, &why) != MT_ERR_OK)
			code = mt_error_fail(MT_EXIT_USAGE, &why);
	}
	mt_recording_free(&recording);
	return code;
}
