/* ctl/stat.h -- the two dresses of `mtctl stat`; stat.c reads the command line. */
#ifndef MT_CTL_STAT_H
#define MT_CTL_STAT_H

#include "ctl/target.h"

struct mt_stat_view {
	bool json, records, samples, watch, cached;
	uint64_t every_ms;
};

/* One object: every field by its name, and records, samples, settings. */
void mt_stat_print_json(const struct mt_target *target, bool indented);

void mt_stat_print_text(const struct mt_target *target, const struct mt_stat_view *view);

#endif
