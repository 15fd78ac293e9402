/* pressure/text.h -- formats the log line about memory pressure. Pure: owns no state. Any thread
 * may call. Takes no lock, never allocates. */
#ifndef MT_PRESSURE_TEXT_H
#define MT_PRESSURE_TEXT_H

#include <stddef.h>

#include "pressure/policy.h"

struct mt_pressure_report {
	const struct mt_pressure_sample *sample;
	const struct mt_pressure *pressure; /* after mt_pressure_decide */
	const struct mt_pressure_plan *plan;
	const char *limit_source; /* of sample->limit_bytes */
	uint64_t own_limit_bytes; /* 0 none */
	uint64_t load_thousandths;
	uint64_t cpus_count; /* 0 unknown */
};

/* Formats, cut to out_bytes with a NUL, the reasons first: "memory pressure: tasks of this cgroup
 * waited 12.0 % of the time for memory (PSI); RAM at 64.6 % of 512 MB (/a/b/memory.max), load 1.9
 * on 2 CPUs: purge". */
void mt_pressure_format(const struct mt_pressure_report *report, char *out, size_t out_bytes);

#endif
