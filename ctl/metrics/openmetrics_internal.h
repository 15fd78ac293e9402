/* ctl/metrics/openmetrics_internal.h -- the steps of openmetrics.c, for its tests. */
#ifndef MT_CTL_METRICS_OPENMETRICS_INTERNAL_H
#define MT_CTL_METRICS_OPENMETRICS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

struct mt_exposition;
struct mt_figure;
struct mt_labels;
struct mt_metric;

/* Fills name, sample, type, unit, help and decimals from a figure, with a prefix such as "mtshim_".
 * Names end with a base unit (bytes, seconds, ratio), whatever unit the figure has. The samples of
 * counters end with _total, those of info metrics with _info. */
void mt_metric_of_figure(const struct mt_figure *figure, const char *prefix, struct mt_metric *out);

/* Fills out->sample from name and type. */
void mt_metric_name_sample(struct mt_metric *out);

/* Adds a label. The value must be clean (mt_text_clean), and stay valid as long as the labels. It
 * is escaped in the text. A label that does not fit is left out. */
void mt_labels_add(struct mt_labels *labels, const char *name, const char *value);
void mt_labels_add_number(struct mt_labels *labels, const char *name, uint64_t value);

/* Begins a family. Each family may begin once. The metric must stay valid until the next one
 * begins. */
void mt_exposition_begin(struct mt_exposition *page, const struct mt_metric *metric);

/* Writes a sample of the family; `value` is in units of 10^-metric->decimals. labels: NULL for
 * none. */
void mt_exposition_sample(struct mt_exposition *page, const struct mt_labels *labels,
			  uint64_t value);

/* Returns the whole text, which the caller frees. */
char *mt_exposition_end(struct mt_exposition *page, size_t *out_bytes);

#endif
