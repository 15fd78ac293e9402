#include "pressure/text.h"

#include "core/log.h"
#include "sys/os.h"
#include "sys/format.h"

#define MB(bytes) ((unsigned long long)((bytes) / MT_MIB))

/* A text to which pieces are appended. */
struct line {
	char *at;
	size_t left;
	bool begun;
};

#define APPEND(line, ...)                                                                          \
	do {                                                                                       \
		size_t added_ = mt_format((line)->at, (line)->left, __VA_ARGS__);                  \
		(line)->at += added_;                                                              \
		(line)->left -= added_;                                                            \
	} while (0)

static const char *separator(struct line *line)
{
	const char *text = line->begun ? ", " : "";

	line->begun = true;
	return text;
}

/* Returns the share in thousandths: 873 is 87.3 %. */
static unsigned long long thousandths(uint64_t used, uint64_t limit)
{
	return limit ? (unsigned long long)((double)used / (double)limit * 1000) : 0;
}

static void add_limits(struct line *line, const struct mt_pressure_report *report)
{
	const struct mt_pressure_sample *sample = report->sample;
	unsigned long long share = thousandths(sample->used_bytes, sample->limit_bytes);

	if (sample->limit_bytes)
		APPEND(line, "%sRAM at %llu.%llu %% of %llu MB (%s)", separator(line), share / 10,
		       share % 10, MB(sample->limit_bytes), report->limit_source);
	for (uint32_t i = 0; i < sample->devices_count; i++) {
		const struct mt_pressure_device *device = &sample->devices[i];

		share = thousandths(device->used_bytes, device->total_bytes);
		if (device->total_bytes)
			APPEND(line, "%sGPU %llu at %llu.%llu %%", separator(line),
			       (unsigned long long)device->ordinal, share / 10, share % 10);
	}
	share = thousandths(sample->own_bytes, report->own_limit_bytes);
	if (report->own_limit_bytes)
		APPEND(line, "%sthis process at %llu.%llu %% of MT_RSS_LIMIT_MB=%llu",
		       separator(line), share / 10, share % 10, MB(report->own_limit_bytes));
}

static void add_signs(struct line *line, const struct mt_pressure_report *report)
{
	const enum mt_pressure_level *levels = report->pressure->levels;
	unsigned long long stall = report->pressure->stall_thousandths;
	unsigned long long load = report->load_thousandths / 100;

	if (levels[MT_PRESSURE_EVENTS])
		APPEND(line, "%sthe container has reached its limit", separator(line));
	if (levels[MT_PRESSURE_STALL])
		APPEND(line, "%stasks wait for memory %llu.%llu %% of the time", separator(line),
		       stall / 10, stall % 10);
	if (report->cpus_count)
		APPEND(line, "%sload %llu.%llu on %llu CPUs", separator(line), load / 10, load % 10,
		       (unsigned long long)report->cpus_count);
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
	struct line line = {out, out_bytes, false};

	APPEND(&line, "%s", report->plan->over ? "memory pressure is over: " : "memory pressure: ");
	add_limits(&line, report);
	add_signs(&line, report);
	APPEND(&line, "%s", action(report->plan));
}
