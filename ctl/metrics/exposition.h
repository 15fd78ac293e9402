/* ctl/metrics/exposition.h -- writes text that Prometheus reads: OpenMetrics 1.0, or the older text
 * format 0.0.4, which node_exporter wants.
 * (https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md,
 * https://prometheus.io/docs/instrumenting/exposition_formats) A family is announced by its first
 * sample: one without any is not there. */
#ifndef MT_CTL_METRICS_EXPOSITION_H
#define MT_CTL_METRICS_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/metrics/metric.h"

enum mt_exposition_format { MT_EXPOSITION_OPENMETRICS, MT_EXPOSITION_TEXT };

struct mt_exposition {
	enum mt_exposition_format format;
	char *text; /* ended by a NUL as soon as there is any */
	size_t used, room;
	const struct mt_metric *metric; /* the family of the samples to come */
	bool announced;
};

/* What stands between the braces. */
struct mt_labels {
	char text[640];
	size_t used;
};

/* Escapes the value; it must be clean (mt_text_clean). A label for which there is no room is left
 * out whole. */
void mt_labels_add(struct mt_labels *labels, const char *name, const char *value);
void mt_labels_add_number(struct mt_labels *labels, const char *name, uint64_t value);

/* A family begins; each may come once only. The metric must stay where it is until the next one
 * begins. */
void mt_exposition_begin(struct mt_exposition *page, const struct mt_metric *metric);

/* `value` counts as metric->decimals says. labels: NULL for none. */
void mt_exposition_sample(struct mt_exposition *page, const struct mt_labels *labels,
			  uint64_t value);

/* The whole text, which the caller frees. */
char *mt_exposition_end(struct mt_exposition *page, size_t *out_bytes);

#endif
