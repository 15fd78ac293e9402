#include "ctl/metrics/exposition.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"

#define NUMBER_MAX 40u /* 20 digits, a point, a NUL, and some */

/* ---- names ---- */

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

void mt_metric_of_figure(const struct mt_figure *figure, const char *prefix, struct mt_metric *out)
{
	const struct ending *ending = ending_of(figure->name);
	int stem = (int)(strlen(figure->name) - strlen(ending->ours));

	snprintf(out->name, sizeof(out->name), "%s%.*s%s", prefix, stem, figure->name,
		 ending->theirs);
	out->type = figure->is_counter ? MT_METRIC_COUNTER : MT_METRIC_GAUGE;
	out->unit = ending->unit;
	out->help = figure->help;
	out->decimals = ending->decimals;
	mt_metric_name_sample(out);
}

/* ---- text ---- */

/* Makes room for `bytes` and a NUL. */
static char *make_room(struct mt_exposition *page, size_t bytes)
{
	if (page->used + bytes + 1 > page->room) {
		page->room = (page->used + bytes + 1) * 2;
		page->text = mt_error_check_memory(realloc(page->text, page->room));
	}
	return page->text + page->used;
}

static void append_bytes(struct mt_exposition *page, const char *text, size_t bytes)
{
	memcpy(make_room(page, bytes), text, bytes);
	page->used += bytes;
	page->text[page->used] = '\0';
}

static void append(struct mt_exposition *page, const char *text)
{
	append_bytes(page, text, strlen(text));
}

/* The escape of a character within quotes, two characters; NULL: it needs none. */
static const char *escape_of(char c)
{
	return c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : NULL;
}

/* The older format does not escape quotes in help texts. */
static void append_help(struct mt_exposition *page, const char *help)
{
	for (; *help; help++) {
		const char *escape = escape_of(*help);

		if (escape && (*help != '"' || page->format == MT_EXPOSITION_OPENMETRICS))
			append(page, escape);
		else
			append_bytes(page, help, 1);
	}
}

void mt_labels_add(struct mt_labels *labels, const char *name, const char *value)
{
	char text[sizeof(labels->text)];
	size_t used =
		(size_t)snprintf(text, sizeof(text), "%s%s=\"", labels->used ? "," : "", name);

	for (; *value && used + 4 < sizeof(text); value++) {
		const char *escape = escape_of(*value);
		size_t length = escape ? 2 : 1;

		memcpy(text + used, escape ? escape : value, length);
		used += length;
	}
	if (*value || labels->used + used + 2 > sizeof(labels->text))
		return;
	memcpy(labels->text + labels->used, text, used);
	memcpy(labels->text + labels->used + used, "\"", 2);
	labels->used += used + 1;
}

void mt_labels_add_number(struct mt_labels *labels, const char *name, uint64_t value)
{
	char text[NUMBER_MAX];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	mt_labels_add(labels, name, text);
}

void mt_exposition_begin(struct mt_exposition *page, const struct mt_metric *metric)
{
	page->metric = metric;
	page->announced = false;
}

static void append_line(struct mt_exposition *page, const char *word, const char *name)
{
	append(page, word);
	append(page, name);
	append(page, " ");
}

/* OpenMetrics names the family, the older format the samples. The older one has neither units nor
 * info metrics. */
static void announce(struct mt_exposition *page)
{
	const struct mt_metric *metric = page->metric;
	bool open = page->format == MT_EXPOSITION_OPENMETRICS;
	const char *name = open ? metric->name : metric->sample;

	append_line(page, "# TYPE ", name);
	append(page, mt_metric_type(open || metric->type != MT_METRIC_INFO ? metric->type
									   : MT_METRIC_GAUGE));
	if (open && *metric->unit) {
		append_line(page, "\n# UNIT ", name);
		append(page, metric->unit);
	}
	append_line(page, "\n# HELP ", name);
	append_help(page, metric->help);
	append(page, "\n");
	page->announced = true;
}

/* "12.05": a double cannot hold all digits of a counter of nanoseconds. By hand, from the last
 * digit on: snprintf would take an eighth of a scrape. */
static size_t format_value(uint64_t value, unsigned decimals, char out[NUMBER_MAX])
{
	char digits[NUMBER_MAX];
	size_t at = sizeof(digits);
	bool fraction = false;

	for (unsigned i = 0; i < decimals; i++, value /= 10) {
		fraction |= value % 10 != 0;
		if (fraction)
			digits[--at] = (char)('0' + value % 10);
	}
	if (fraction)
		digits[--at] = '.';
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	memcpy(out, digits + at, sizeof(digits) - at);
	return sizeof(digits) - at;
}

void mt_exposition_sample(struct mt_exposition *page, const struct mt_labels *labels,
			  uint64_t value)
{
	char number[NUMBER_MAX];
	size_t digits = format_value(value, page->metric->decimals, number);

	if (!page->announced)
		announce(page);
	append(page, page->metric->sample);
	if (labels && labels->used) {
		append_bytes(page, "{", 1);
		append_bytes(page, labels->text, labels->used);
		append_bytes(page, "}", 1);
	}
	append_bytes(page, " ", 1);
	append_bytes(page, number, digits);
	append_bytes(page, "\n", 1);
}

char *mt_exposition_end(struct mt_exposition *page, size_t *out_bytes)
{
	append(page, page->format == MT_EXPOSITION_OPENMETRICS ? "# EOF\n" : "");
	*out_bytes = page->used;
	return page->text;
}
