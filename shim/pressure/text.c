#include "pressure/text.h"

#include "core/log.h"
#include "sys/os.h"
#include "sys/format.h"

#define MB(bytes) ((unsigned long long)((bytes) / MT_MIB))

/* A text to which pieces are appended: first the reasons, then what else is known. */
struct line {
	char *at;
	size_t left;
	const char *separator;
	bool reasons;
};

#define APPEND(line, ...)                                                                          \
	do {                                                                                       \
		size_t added_ = mt_format((line)->at, (line)->left, __VA_ARGS__);                  \
		(line)->at += added_;                                                              \
		(line)->left -= added_;                                                            \
	} while (0)

static const char *separator(struct line *line)
{
	const char *text = line->separator;

	line->separator = ", ";
	return text;
}

/* Returns whether a piece belongs here that is a reason or not. */
static bool is_next(const struct line *line, enum mt_pressure_level level)
{
	return line->reasons == (level != MT_PRESSURE_NONE);
}

/* Returns the share in thousandths: 873 is 87.3 %. */
static unsigned long long thousandths(uint64_t used, uint64_t limit)
{
	return limit ? (unsigned long long)((double)used / (double)limit * 1000) : 0;
}

static void add_signs(struct line *line, const struct mt_pressure_report *report)
{
	const enum mt_pressure_level *levels = report->pressure->levels;
	unsigned long long stall = report->pressure->stall_thousandths;

	if (line->reasons && levels[MT_PRESSURE_EVENTS])
		APPEND(line, "%sthe container has reached its limit", separator(line));
	if (line->reasons && levels[MT_PRESSURE_STALL])
		APPEND(line,
		       "%stasks of this %s waited %llu.%llu %% of the time for memory "
		       "(PSI)",
		       separator(line), report->sample->psi_is_own ? "cgroup" : "machine",
		       stall / 10, stall % 10);
}

static void add_limits(struct line *line, const struct mt_pressure_report *report)
{
	const struct mt_pressure_sample *sample = report->sample;
	const struct mt_pressure *pressure = report->pressure;
	unsigned long long share = thousandths(sample->used_bytes, sample->limit_bytes);

	if (sample->limit_bytes && is_next(line, pressure->levels[MT_PRESSURE_LIMIT]))
		APPEND(line, "%sRAM at %llu.%llu %% of %llu MB (%s)", separator(line), share / 10,
		       share % 10, MB(sample->limit_bytes), report->limit_source);
	for (uint32_t i = 0; i < sample->devices_count; i++) {
		const struct mt_pressure_device *device = &sample->devices[i];

		share = thousandths(device->used_bytes, device->total_bytes);
		if (device->total_bytes && is_next(line, pressure->device_levels[i]))
			APPEND(line, "%sGPU %llu at %llu.%llu %%", separator(line),
			       (unsigned long long)device->ordinal, share / 10, share % 10);
	}
	share = thousandths(sample->own_bytes, report->own_limit_bytes);
	if (report->own_limit_bytes && is_next(line, pressure->levels[MT_PRESSURE_RSS]))
		APPEND(line, "%sthis process at %llu.%llu %% of MT_RSS_LIMIT_MB=%llu",
		       separator(line), share / 10, share % 10, MB(report->own_limit_bytes));
}

static const char *action(const struct mt_pressure_plan *plan)
{
	if (plan->over)
		return "";
	if (plan->is_reduced)
		return plan->clean ? ": purge only, since other processes of WORLD_SIZE would wait"
				   : ": no cleanup, since other processes of WORLD_SIZE would wait";
	if (!plan->clean)
		return ": no cleanup until the pause after the last one ends";
	if (plan->cleanup == MT_LEVEL_HEAVY)
		return ": heavy cleanup";
	return plan->flush_gpu ? ": purge, release of idle device blocks" : ": purge";
}

void mt_pressure_format(const struct mt_pressure_report *report, char *out, size_t out_bytes)
{
	struct line line = {out, out_bytes, "", true};
	unsigned long long load = report->load_thousandths / 100;

	APPEND(&line, "%s", report->plan->over ? "memory pressure is over: " : "memory pressure: ");
	add_signs(&line, report);
	add_limits(&line, report);
	line.reasons = false;
	line.separator = *line.separator ? "; " : "";
	add_limits(&line, report);
	line.separator = *line.separator ? ", " : "";
	if (report->cpus_count)
		APPEND(&line, "%sload %llu.%llu on %llu CPUs", separator(&line), load / 10,
		       load % 10, (unsigned long long)report->cpus_count);
	APPEND(&line, "%s", action(report->plan));
}
