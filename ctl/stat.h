/* ctl/stat.h -- the dresses of `mtctl stat`; stat.c reads the command line. */
#ifndef MT_CTL_STAT_H
#define MT_CTL_STAT_H

#include <jansson.h>

#include "ctl/target.h"

struct mt_stat_view {
	bool json, records, samples, watch, cached, oom;
	uint64_t every_ms;
};

/* One object: every field by its name, and devices, out-of-memory reports, records, samples,
 * settings. The caller owns it. */
json_t *mt_stat_json(const struct mt_target *target);

/* All settings, each with name, value and origin. */
json_t *mt_stat_settings_json(const struct mt_stats_file *file);

/* One cleanup. */
json_t *mt_stat_record_json(const struct mt_stats_cleanup *record);

void mt_stat_print_text(const struct mt_target *target, const struct mt_stat_view *view);

/* A section for each device; nothing where there is none. */
void mt_stat_print_gpu(const struct mt_stats_file *file);

/* How near the limits are, and what was done about it. */
void mt_stat_print_pressure(const struct mt_stats_file *file);

/* Why a cleanup for pressure was made: "critical 91.2 %, limit, stall"; "-" for any other one. */
struct mt_figure mt_stat_pressure_text(const struct mt_stats_cleanup *record);

/* --oom: the last out-of-memory reports of devices and those of MT_RSS_LIMIT_MB in full, the newest
 * last. */
void mt_stat_print_oom_text(const struct mt_target *target);
void mt_stat_print_alarms(const struct mt_stats_file *file);
void mt_stat_print_oom_json(const struct mt_target *target, bool indented);

#endif
