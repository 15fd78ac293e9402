/* ctl/metrics/metric.h -- the name, type and unit of a figure for Prometheus. Names end with a base
 * unit (bytes, seconds, ratio), whatever unit the figure has. The samples of counters end with
 * _total, those of info metrics with _info. Pure. */
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
	unsigned decimals; /* values are in units of 10^-decimals */
};

/* Returns "gauge", "counter" or "info". */
const char *mt_metric_type(enum mt_metric_type type);

/* Fills name, sample, type, unit, help and decimals from a field of the stats file, with a prefix
 * such as "mtshim_". */
void mt_metric_of_field(const struct mt_stats_file_field *field, const char *prefix,
			struct mt_metric *out);

/* Fills out->sample from name and type. */
void mt_metric_name_sample(struct mt_metric *out);

#endif
