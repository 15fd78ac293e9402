#include "ctl/metrics/metric.h"

#include <stdio.h>
#include <string.h>

/* Endings of figures, and those of families instead; the first one that fits is used. _count is
 * reserved for histograms in Prometheus. */
static const struct ending {
	const char *ours, *theirs, *unit;
	unsigned decimals;
} endings[] = {
	{"_bytes", "_bytes", "bytes", 0},
	{"_ns", "_seconds", "seconds", 9},
	{"_us", "_seconds", "seconds", 6},
	{"_ms", "_seconds", "seconds", 3},
	{"_ratio_thousandths", "_ratio", "ratio", 3},
	{"_thousandths", "", "", 3},
	{"_count", "", "", 0},
	{"", "", "", 0},
};

const char *mt_metric_type(enum mt_metric_type type)
{
	static const char *const words[] = {"gauge", "counter", "info"};

	return words[type];
}

static const struct ending *ending_of(const char *name)
{
	const struct ending *ending = endings;

	while (!mt_text_ends_with(name, ending->ours))
		ending++;
	return ending;
}

void mt_metric_name_sample(struct mt_metric *out)
{
	static const char *const suffixes[] = {"", "_total", "_info"};

	snprintf(out->sample, sizeof(out->sample), "%s%s", out->name, suffixes[out->type]);
}

void mt_metric_of_field(const struct mt_stats_file_field *field, const char *prefix,
			struct mt_metric *out)
{
	const struct ending *ending = ending_of(field->name);
	int stem = (int)(strlen(field->name) - strlen(ending->ours));

	snprintf(out->name, sizeof(out->name), "%s%.*s%s", prefix, stem, field->name,
		 ending->theirs);
	out->type = field->is_counter ? MT_METRIC_COUNTER : MT_METRIC_GAUGE;
	out->unit = ending->unit;
	out->help = field->help;
	out->decimals = ending->decimals;
	mt_metric_name_sample(out);
}
