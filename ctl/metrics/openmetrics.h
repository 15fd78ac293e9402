/* ctl/metrics/openmetrics.h -- a process list as text for Prometheus: `mtctl serve` (/metrics) and
 * `mtctl export`. It opens no file and wakes no process. Text of processes is escaped, and cut
 * if it is long. Unknown values are left out, not 0. Of many processes the 500 largest are
 * written. For one thread. */
#ifndef MT_CTL_METRICS_OPENMETRICS_H
#define MT_CTL_METRICS_OPENMETRICS_H

#include <stdio.h>

#include "ctl/figures/figures.h"
#include "ctl/output/error.h"

struct mt_exposition;
struct mt_metric;
struct mt_process_list;

#define MT_OPENMETRICS_TYPE     "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define MT_OPENMETRICS_OLD_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum mt_exposition_format { MT_EXPOSITION_OPENMETRICS, MT_EXPOSITION_TEXT };

/* Returns all families in OpenMetrics 1.0, ended by "# EOF", or in the text format 0.0.4, and a NUL
 * that *out_bytes does not count. The caller frees. */
char *mt_openmetrics_render(const struct mt_process_list *processes,
			    enum mt_exposition_format format, size_t *out_bytes);

/* Hands every sample to page->take. */
void mt_openmetrics_each(const struct mt_process_list *processes, struct mt_exposition *page);

/* Returns all families, in their order. The caller frees. */
struct mt_metric *mt_openmetrics_families(size_t *out_count);

/* ---- exposition ---- */

/* Writes text for Prometheus: OpenMetrics 1.0, or the text format
 * 0.0.4, which node_exporter needs
 * (https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md,
 * https://prometheus.io/docs/instrumenting/exposition_formats). A family without samples is not
 * written. Metrics have the names of the figures, in base units. For one thread. */

enum mt_metric_type { MT_METRIC_GAUGE, MT_METRIC_COUNTER, MT_METRIC_INFO };

struct mt_metric {
	char name[64];   /* of the family */
	char sample[72]; /* of its samples */
	enum mt_metric_type type;
	const char *unit;   /* "" for plain numbers */
	const char *labels; /* for the documents: "pid, comm, rank" */
	const char *help;
	unsigned decimals; /* values are in units of 10^-decimals */
};

/* Returns "gauge", "counter" or "info". */
const char *mt_metric_type(enum mt_metric_type type);

#define MT_LABELS_MAX    8u
#define MT_LABEL_NUMBERS 2u

/* The labels of a sample: as text between the braces, and one by one. */
struct mt_labels {
	char text[640];
	size_t used, count, numbers_count;
	struct {
		const char *name, *value;
	} list[MT_LABELS_MAX];
	char numbers[MT_LABEL_NUMBERS][24]; /* values that are numbers */
};

struct mt_exposition {
	enum mt_exposition_format format;
	/* not NULL: takes the samples, and nothing is written */
	void (*take)(void *data, const struct mt_metric *metric, const struct mt_labels *labels,
		     uint64_t value);
	void *data;
	FILE *to; /* into `text`; NULL: nothing was written */
	char *text;
	size_t bytes;
	const struct mt_metric *metric; /* the family of the next samples */
	bool announced;
};

/* The metrics as OTLP, and its way to a collector of OpenTelemetry:
 * OTLP/HTTP with JSON, by libcurl, which is loaded when it is needed. Endpoint, headers, timeout
 * and resource come from the variables OTEL_* that every exporter reads. Sources:
 * opentelemetry.io/docs/specs/otlp, .../specs/otel/protocol/exporter. For one thread. */

struct mt_process_list;

/* Makes the body of a request from the families of ctl/metrics/openmetrics.h: a resource for each
 * process, one for what is of none. Counters are monotonic sums, gauges and info metrics gauges.
 * Names are those of the semantic conventions if they have the figure. time_ns: since 1970. The
 * caller frees. */
char *mt_otlp_body(const struct mt_process_list *processes, uint64_t time_ns);

/* Sends a body. Returns MT_ERR_NOT_AVAILABLE if libcurl is missing, MT_ERR_INVALID for a
 * variable that is not valid or a refusal by the collector, MT_ERR_TIMEOUT if the collector
 * cannot be reached or asks for a later try, each with the reason. What the collector has left out
 * of a body that it took is said on stderr. */
enum mt_err mt_otlp_send(const char *body, struct mt_error_reason *why);

#endif
