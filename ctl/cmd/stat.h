/* ctl/cmd/stat.h -- the parts of `mtctl stat`; stat.c reads the command line. */
#ifndef MT_CTL_CMD_STAT_H
#define MT_CTL_CMD_STAT_H

#include "ctl/diagnose/diagnose.h"

struct mt_stat_view {
	bool json, all, records, samples, watch, cached, oom;
	uint64_t every_ms;
	const struct mt_facts *facts;     /* what one look shows; NULL: not looked */
	const struct mt_diagnosis *found; /* in the facts */
};

void mt_stat_print_text(const struct mt_target *target, const struct mt_stat_view *view);

/* --oom: prints the last out-of-memory reports of devices and of MT_RSS_LIMIT_MB in full, the
 * newest last. */
void mt_stat_print_oom_text(const struct mt_target *target);

#endif
