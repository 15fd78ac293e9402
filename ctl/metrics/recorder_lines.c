/* ctl/metrics/recorder_lines.c -- see recorder_lines.h. */
#include "ctl/metrics/recorder_lines.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "ctl/output/json.h"
#include "ctl/process/clock.h"
#include "ctl/process/stats_json.h"
#include "ctl/process/read_file.h"
#include "ctl/process/runtime.h"

uint64_t mt_recorder_start_ns(const struct mt_process *process)
{
	uint64_t since_boot = process->start_ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));

	return mt_clock_realtime_ns() - mt_clock_boottime_ns() + since_boot;
}

uint64_t mt_recorder_interval_ns(const struct mt_recorder_options *options, uint64_t since_ns)
{
	uint64_t part_ns = since_ns / MT_RECORDER_PART;

	if (options->interval_ns)
		return options->interval_ns;
	return part_ns < MT_RECORDER_FIRST_NS  ? MT_RECORDER_FIRST_NS
	       : part_ns > MT_RECORDER_LAST_NS ? MT_RECORDER_LAST_NS
					       : part_ns;
}

static uint64_t hash_text(uint64_t hash, char *text, size_t length)
{
	for (size_t i = 0; text && i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u; /* FNV-1a */
	free(text);
	return hash;
}

uint64_t mt_recorder_identity(pid_t pid)
{
	size_t comm_length = 0, command_length = 0;
	char *comm = mt_process_read(pid, "comm", &comm_length);
	char *command = mt_process_read_memory(pid, "cmdline", &command_length);

	return hash_text(hash_text(0xcbf29ce484222325u, comm, comm_length), command,
			 command_length);
}

json_t *mt_recorder_line(const char *kind, pid_t pid, uint64_t time_ns)
{
	json_t *line = json_object();

	mt_json_set_text(line, "kind", kind);
	mt_json_set_u64(line, "time_ns", time_ns);
	mt_json_set_u64(line, "pid", (uint64_t)pid);
	return line;
}

static void set_clean(json_t *object, const char *name, const char *text)
{
	char clean[160];

	strncpy(clean, text, sizeof(clean) - 1);
	clean[sizeof(clean) - 1] = '\0';
	mt_text_clean(clean, sizeof(clean));
	mt_json_set_text(object, name, clean);
}

json_t *mt_recorder_header(const struct mt_process *root, const struct mt_recorder_options *options,
			   uint64_t now_ns)
{
	json_t *line = mt_recorder_line("header", root->pid, now_ns);
	struct utsname machine;

	mt_json_set_text(line, "format", MT_RECORDER_FORMAT);
	mt_json_set_u64(line, "version", MT_RECORDER_VERSION);
	mt_json_set_text(line, "comm", root->comm);
	mt_json_set_text(line, "command", root->command);
	mt_json_set_bool(line, "started", options->started);
	mt_json_set_bool(line, "shim", options->shim);
	mt_json_set_bool(line, "tree", options->tree);
	mt_json_set_u64(line, "interval_ms", mt_recorder_interval_ns(options, 0) / 1000000u);
	mt_json_set_u64(line, "interval_max_ms",
			mt_recorder_interval_ns(options, UINT64_MAX) / 1000000u);
	mt_json_set_text(line, "mtctl_version", MT_VERSION);
	if (uname(&machine) == 0) {
		set_clean(line, "host", machine.nodename);
		set_clean(line, "machine", machine.machine);
		set_clean(line, "kernel", machine.release);
	}
	mt_json_set_u64(line, "cpus_count", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	mt_json_set_u64(line, "memory_bytes",
			(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
	return line;
}

/* ---- processes ---- */

static json_t *devices_json(const struct mt_stats_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < file->head.devices_count; i++) {
		json_t *device = json_object();

		mt_json_set_u64(device, "ordinal", file->devices[i].ordinal);
		mt_json_set_text(device, "name", file->devices[i].name);
		mt_json_set_u64(device, "total_bytes", file->devices[i].total_bytes);
		mt_json_append(array, device);
	}
	return array;
}

json_t *mt_recorder_process_line(const struct mt_watched *watched, const struct mt_stats_file *file,
				 const char *why, uint64_t now_ns)
{
	static const char *const states[MT_WATCHED_STATES_COUNT] = {"new", "plain", "asleep",
								    "awake", "refused"};
	const struct mt_process *process = &watched->process;
	struct mt_runtime runtime;
	json_t *line = mt_recorder_line("process", process->pid, now_ns);

	mt_json_set_u64(line, "ppid", (uint64_t)process->parent);
	mt_json_set_text(line, "comm", process->comm);
	mt_json_set_text(line, "command", process->command);
	mt_json_set_u64(line, "start_ns", mt_recorder_start_ns(process));
	mt_json_set_text(line, "state", states[watched->state]);
	if (watched->state == MT_WATCHED_REFUSED)
		set_clean(line, "why", why);
	if (watched->state != MT_WATCHED_AWAKE)
		return line;
	mt_json_set_text(line, "shim_version", file->head.shim_version);
	mt_json_set_text(line, "allocator", file->head.allocator);
	mt_json_set_text(line, "mode", file->head.mode);
	mt_json_set(line, "rank", *file->head.rank ? json_string(file->head.rank) : json_null());
	mt_json_set(line, "devices", devices_json(file));
	mt_json_set(line, "settings", mt_stats_json_settings(file));
	mt_json_set_u64_if(line, "limit_bytes", file->head.snapshot.pressure_limit_bytes != 0,
			   file->head.snapshot.pressure_limit_bytes);
	mt_json_set_text(line, "limit_source", file->head.limit_source);
	mt_runtime_read(process->pid, &runtime);
	mt_json_set_text(line, "libc_version", runtime.libc);
	mt_json_set_text(line, "python_version", runtime.python);
	return line;
}

/* ---- samples ---- */

struct number {
	const char *name;
	size_t offset;
};
#define NUMBER(name)                                                                               \
	{                                                                                          \
#name, offsetof(struct mt_stats_snapshot, name)                                    \
	}
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void set_numbers(json_t *object, const struct mt_stats_snapshot *from,
			const struct number *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t value;

		memcpy(&value, (const char *)from + numbers[i].offset, sizeof(value));
		mt_json_set_u64(object, numbers[i].name, value);
	}
}

static void set_kernel_figures(json_t *line, const char *status)
{
	static const struct {
		const char *key, *name;
	} figures[] = {{"VmRSS", "rss_bytes"},
		       {"RssAnon", "rss_anon_bytes"},
		       {"RssShmem", "rss_shmem_bytes"},
		       {"VmSwap", "swap_bytes"},
		       {"VmHWM", "rss_peak_bytes"}};
	uint64_t kb;

	for (size_t i = 0; i < COUNT(figures); i++)
		if (mt_read_file_number(status, figures[i].key, &kb) && kb < UINT64_MAX / 1024)
			mt_json_set_u64(line, figures[i].name, kb * 1024);
}

/* Fields 14 and 15 of /proc/PID/stat, in clock ticks. The name before them may hold anything. */
static void set_cpu_time(json_t *line, pid_t pid)
{
	char *text = mt_process_read(pid, "stat", NULL), *at = text ? strrchr(text, ')') : NULL;
	unsigned long long user, system;

	if (at && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			 &system) == 2)
		mt_json_set_u64(line, "cpu_ns",
				(user + system) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)));
	free(text);
}

static json_t *device_samples(const struct mt_stats_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < file->head.devices_count; i++) {
		const struct mt_stats_device *from = &file->devices[i];
		json_t *device = json_object();

		mt_json_set_u64(device, "ordinal", from->ordinal);
		mt_json_set_u64(device, "allocated_bytes", from->allocated_bytes);
		mt_json_set_u64(device, "reserved_bytes", from->reserved_bytes);
		mt_json_set_u64(device, "idle_bytes", from->idle_bytes);
		if (from->total_bytes) {
			mt_json_set_u64(device, "free_bytes", from->free_bytes);
			mt_json_set_u64(device, "total_bytes", from->total_bytes);
		}
		if (from->others_known == 1)
			mt_json_set_u64(device, "others_bytes", from->others_bytes);
		mt_json_append(array, device);
	}
	return array;
}

static void set_shim_figures(json_t *line, const struct mt_stats_file *file)
{
	static const struct number heap[] = {
		NUMBER(heap_live_bytes),  NUMBER(heap_idle_bytes),
		NUMBER(heap_dirty_bytes), NUMBER(heap_active_bytes),
		NUMBER(rounds_count),     NUMBER(pressure_level),
		NUMBER(cpu_ns),
	};
	static const struct number pressure[] = {NUMBER(pressure_used_bytes),
						 NUMBER(pressure_limit_bytes)};
	static const struct number gpu[] = {
		NUMBER(gpu_allocated_bytes),
		NUMBER(gpu_reserved_bytes),
		NUMBER(gpu_idle_bytes),
		NUMBER(gpu_pending_bytes),
		NUMBER(gpu_other_bytes),
		NUMBER(gpu_pinned_bytes),
		NUMBER(gpu_async_reserved_bytes),
		NUMBER(framework_reserved_bytes),
		NUMBER(framework_allocated_bytes),
	};
	const struct mt_stats_snapshot *now = &file->head.snapshot;

	mt_json_set_u64(line, "shim_time_ns", file->head.time_ns);
	set_numbers(line, now, heap, COUNT(heap));
	if (now->pressure_limit_bytes)
		set_numbers(line, now, pressure, COUNT(pressure));
	if (!mt_stats_file_uses_cuda(&file->head))
		return;
	set_numbers(line, now, gpu, COUNT(gpu));
	if (now->gpu_process_known == 1)
		mt_json_set_u64(line, "gpu_process_bytes", now->gpu_process_bytes);
	mt_json_set(line, "devices", device_samples(file));
}

json_t *mt_recorder_sample_line(const struct mt_watched *watched, const struct mt_stats_file *file,
				uint64_t now_ns)
{
	char *status = mt_process_read(watched->process.pid, "status", NULL);
	json_t *line = NULL;
	uint64_t kb;

	if (status && mt_read_file_number(status, "VmRSS", &kb)) {
		line = mt_recorder_line("sample", watched->process.pid, now_ns);
		set_kernel_figures(line, status);
		set_cpu_time(line, watched->process.pid);
		if (file)
			set_shim_figures(line, file);
	}
	free(status);
	return line;
}
