/* ctl/metrics/openmetrics.h -- a process list as text for Prometheus: `mtctl serve` (/metrics) and
 * `mtctl export`. It opens no file and wakes no process. Text of processes is escaped, and cut
 * where it is long. Unknown values are left out, not 0. Of many processes the 500 largest are
 * written. For one thread. */
#ifndef MT_CTL_METRICS_OPENMETRICS_H
#define MT_CTL_METRICS_OPENMETRICS_H

#include <stddef.h>

struct mt_metric;
struct mt_process_list;

#define MT_OPENMETRICS_TYPE     "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define MT_OPENMETRICS_OLD_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Returns all families in OpenMetrics 1.0, ended by "# EOF
 * " and a NUL that *out_bytes does not count. The caller frees. */
char *mt_openmetrics_render(const struct mt_process_list *processes, size_t *out_bytes);

/* The same families in the text format 0.0.4. The caller frees. */
char *mt_openmetrics_render_old(const struct mt_process_list *processes, size_t *out_bytes);

/* Returns all families, in their order. The caller frees. */
struct mt_metric *mt_openmetrics_families(size_t *out_count);

#endif
