/* ctl/process/stats_json.h -- the stats of one process as JSON, as `mtctl stat --json` prints it
 * and `mtctl serve` sends it for /api/processes/PID. The names of the keys are a contract:
 * docs/mtctl.md. The caller owns each object. Pure, except mt_stats_json_print_oom. */
#ifndef MT_CTL_PROCESS_STATS_JSON_H
#define MT_CTL_PROCESS_STATS_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "ctl/process/target.h"

/* One object: every field by its name, then devices, out-of-memory reports, cleanups, samples and
 * settings. */
json_t *mt_stats_json(const struct mt_target *target);

/* All settings: an array of objects with name, value and origin. */
json_t *mt_stats_json_settings(const struct mt_stats_file *file);

/* One cleanup. */
json_t *mt_stats_json_cleanup(const struct mt_stats_cleanup *cleanup);

/* Prints the out-of-memory reports of devices and of MT_RSS_LIMIT_MB to stdout, the newest last.
 * indented: several lines, else one. */
void mt_stats_json_print_oom(const struct mt_target *target, bool indented);

#endif
