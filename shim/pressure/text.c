#include "pressure/text.h"

#include "core/log.h"
#include "sys/os.h"
#include "sys/format.h"

#define MB(bytes) ((unsigned long long)((bytes) / MT_MIB))

/* Text that is added to, piece by piece. */
struct line {
	char *at;
	size_t left;
	bool begun;
};

#define ADD(line, ...)                                                                             \
	do {                                                                                       \
		size_t added_ = mt_format((line)->at, (line)->left, __VA_ARGS__);                  \
		(line)->at += added_;                                                              \
		(line)->left -= added_;                                                            \
	} while (0)

static const char *comma(struct line *line)
{
	const char *text = line->begun ? ", " : "";

	line->begun = true;
	return text;
}

/* 873 is 87.3 %. */
static unsigned long long thousandths(uint64_t used, uint64_t limit)
{
	return limit ? (unsigned long long)((double)used / (double)limit * 1000) : 0;
}

static void add_limits(struct line *line, const struct mt_pressure_sample *sample)
{
	const struct mt_pressure_look *look = sample->look;
	unsigned long long share = thousandths(look->used_bytes, look->limit_bytes);

	if (look->limit_bytes)
		ADD(line, "%sRAM at %llu.%llu %% of %llu MB (%s)", comma(line), share / 10,
		    share % 10, MB(look->limit_bytes), sample->limit_source);
	for (uint32_t i = 0; i < look->devices_count; i++) {
		const struct mt_pressure_device *device = &look->devices[i];

		share = thousandths(device->used_bytes, device->total_bytes);
		if (device->total_bytes)
			ADD(line, "%sGPU %llu at %llu.%llu %%", comma(line),
			    (unsigned long long)device->ordinal, share / 10, share % 10);
	}
	share = thousandths(look->own_bytes, sample->own_limit_bytes);
	if (sample->own_limit_bytes)
		ADD(line, "%sthis process at %llu.%llu %% of MT_RSS_LIMIT_MB=%llu", comma(line),
		    share / 10, share % 10, MB(sample->own_limit_bytes));
}

static void add_signs(struct line *line, const struct mt_pressure_sample *sample)
{
	const enum mt_pressure_level *levels = sample->pressure->levels;
	unsigned long long stall = sample->pressure->stall_thousandths;
	unsigned long long load = sample->load_thousandths / 100;

	if (levels[MT_PRESSURE_EVENTS])
		ADD(line, "%sthe container has run into its limit", comma(line));
	if (levels[MT_PRESSURE_STALL])
		ADD(line, "%stasks wait for memory %llu.%llu %% of the time", comma(line),
		    stall / 10, stall % 10);
	if (levels[MT_PRESSURE_WATCH])
		ADD(line, "%sMEMORY_PRESSURE_WATCH has told so", comma(line));
	if (sample->cpus_count)
		ADD(line, "%sload %llu.%llu on %llu CPUs", comma(line), load / 10, load % 10,
		    (unsigned long long)sample->cpus_count);
}

static const char *deed(const struct mt_pressure_plan *plan)
{
	if (plan->over)
		return "";
	if (plan->spared)
		return plan->clean ? ": purge alone, since WORLD_SIZE says that others would wait"
				   : ": left alone, since WORLD_SIZE says that others would wait";
	if (!plan->clean)
		return ": nothing until the last cleanup's pause is over";
	if (plan->cleanup == MT_LEVEL_HEAVY)
		return ": heavy cleanup";
	return plan->flush_gpu ? ": purge, and idle device blocks go back" : ": purge";
}

void mt_pressure_describe(const struct mt_pressure_sample *sample, char *out, size_t out_bytes)
{
	struct line line = {out, out_bytes, false};

	ADD(&line, "%s", sample->plan->over ? "memory pressure is over: " : "memory pressure: ");
	add_limits(&line, sample);
	add_signs(&line, sample);
	ADD(&line, "%s", deed(sample->plan));
}
