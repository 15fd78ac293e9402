/* ctl/channel/stats_json.h -- the stats of one process as JSON, for `mtctl stat --json` and for
 * /api/processes/PID of `mtctl serve`. The keys are a public contract: docs/json.md. The caller
 * owns each object. Pure, except mt_stats_json_print_oom. */
#ifndef MT_CTL_CHANNEL_STATS_JSON_H
#define MT_CTL_CHANNEL_STATS_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "ctl/channel/target.h"

/* Returns an object with every field by its name, then devices, out-of-memory reports, cleanups,
 * samples and settings. */
json_t *mt_stats_json(const struct mt_target *target);

/* Returns an array of all settings: objects with name, value and origin. */
json_t *mt_stats_json_settings(const struct mt_stats_file *file);

/* Returns one cleanup as an object. */
json_t *mt_stats_json_cleanup(const struct mt_stats_cleanup *cleanup);

/* Prints the out-of-memory reports of devices and of MT_RSS_LIMIT_MB to stdout, the oldest first.
 * indented: on several lines, else on one. */
void mt_stats_json_print_oom(const struct mt_target *target, bool indented);

#endif
