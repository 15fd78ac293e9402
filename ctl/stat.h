/* ctl/stat.h -- the dresses of `mtctl stat`; stat.c reads the command line. */
#ifndef MT_CTL_STAT_H
#define MT_CTL_STAT_H

#include "ctl/target.h"

struct mt_stat_view {
	bool json, records, samples, watch, cached, oom;
	uint64_t every_ms;
};

/* One object: every field by its name, and devices, out-of-memory reports, records, samples, settings. */
void mt_stat_print_json(const struct mt_target *target, bool indented);

void mt_stat_print_text(const struct mt_target *target, const struct mt_stat_view *view);

/* A section for each device; nothing where there is none. */
void mt_stat_print_gpu(const struct mt_stats_file *file);

/* --oom: the last out-of-memory reports in full, the newest last. */
void mt_stat_print_oom_text(const struct mt_target *target);
void mt_stat_print_oom_json(const struct mt_target *target, bool indented);

#endif
