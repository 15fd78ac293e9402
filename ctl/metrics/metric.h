/* ctl/metrics/metric.h -- what Prometheus calls a figure: the name, type and unit of a family.
 * Names end in a base unit (bytes, seconds, ratio), whatever unit the figure itself is kept in;
 * names of counters get _total, and those of info metrics _info, in their samples. */
#ifndef MT_CTL_METRICS_METRIC_H
#define MT_CTL_METRICS_METRIC_H

#include "ctl/process/stats_file.h"

enum mt_metric_type { MT_METRIC_GAUGE, MT_METRIC_COUNTER, MT_METRIC_INFO };

struct mt_metric {
	char name[64];   /* of the family */
	char sample[72]; /* of its samples */
	enum mt_metric_type type;
	const char *unit;   /* "" for plain numbers */
	const char *labels; /* for people: "pid, comm, rank" */
	const char *help;
	unsigned decimals; /* the figure counts in units of 10 to the minus this */
};

/* "gauge", "counter", "info". */
const char *mt_metric_type(enum mt_metric_type type);

/* Fills name, sample, type, unit, help and decimals from a field of the stats file; prefix:
 * "mtshim_". */
void mt_metric_of_field(const struct mt_stats_file_field *field, const char *prefix,
			struct mt_metric *out);

/* Fills out->sample from its name and type. */
void mt_metric_name_sample(struct mt_metric *out);

#endif
