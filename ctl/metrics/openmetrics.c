/* ctl/metrics/openmetrics.c -- the families, and how their samples are written. See openmetrics.h.
 */
#include "ctl/metrics/openmetrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/channel/process_list.h"
#include "ctl/metrics/openmetrics_internal.h"

#define PROCESSES_MAX 500u
#define PROCESS       "pid, comm, rank"
#define DEVICE        "pid, comm, rank, device"

struct chosen {
	const struct mt_process_list_entry *entry;
	struct mt_labels labels;
};

struct sample {
	struct mt_exposition *page;
	const struct mt_process_list *processes;
	struct chosen *list; /* the largest, by pid */
	size_t count;
};

/* A family, and how its samples are written. */
struct source {
	struct mt_metric metric;
	/* once for the page, or */
	void (*write_page)(struct sample *sample);
	/* for each process, if it is awake or `always` */
	void (*write)(struct mt_exposition *page, const struct source *source,
		      const struct chosen *process);
	bool always;
	const struct mt_figure *figure; /* NULL: none */
};

/* ---- families that are no figures ---- */

static void write_build(struct sample *sample)
{
	struct mt_labels labels = {0};

	mt_labels_add(&labels, "version", MT_VERSION);
	mt_exposition_sample(sample->page, &labels, 1);
}

static void write_states(struct sample *sample)
{
	uint64_t counts[MT_PROCESS_STATES_COUNT] = {0};

	for (size_t i = 0; i < sample->processes->count; i++)
		counts[sample->processes->list[i].state]++;
	for (size_t state = 0; state < MT_PROCESS_STATES_COUNT; state++) {
		struct mt_labels labels = {0};

		mt_labels_add(&labels, "state",
			      mt_process_state_word((enum mt_process_state)state));
		mt_exposition_sample(sample->page, &labels, counts[state]);
	}
}

static void write_left_out(struct sample *sample)
{
	mt_exposition_sample(sample->page, NULL, sample->processes->count - sample->count);
}

/* A sleeping process has no figures, and is neither up nor down. */
static void write_up(struct mt_exposition *page, const struct source *source,
		     const struct chosen *process)
{
	(void)source;
	if (process->entry->state != MT_PROCESS_ASLEEP)
		mt_exposition_sample(page, &process->labels,
				     process->entry->state == MT_PROCESS_AWAKE);
}

static void write_time(struct mt_exposition *page, const struct source *source,
		       const struct chosen *process)
{
	(void)source;
	mt_exposition_sample(page, &process->labels, process->entry->head.time_ns);
}

static void write_process(struct mt_exposition *page, const struct source *source,
			  const struct chosen *process)
{
	const struct mt_stats_head *head = &process->entry->head;
	struct mt_labels labels = process->labels;

	(void)source;
	mt_labels_add(&labels, "allocator", head->allocator);
	mt_labels_add(&labels, "mode", mt_stats_word_mode(head->mode));
	mt_labels_add(&labels, "shim_version", head->shim_version);
	mt_exposition_sample(page, &labels, 1);
}

static void write_world(struct mt_exposition *page, const struct source *source,
			const struct chosen *process)
{
	(void)source;
	if (process->entry->head.world_size)
		mt_exposition_sample(page, &process->labels, process->entry->head.world_size);
}

/* The kernel's value of this moment, as in `mtctl ps`: also of sleeping processes. */
static void write_rss(struct mt_exposition *page, const struct source *source,
		      const struct chosen *process)
{
	(void)source;
	mt_exposition_sample(page, &process->labels, process->entry->own.rss_bytes);
}

static void write_reason(struct mt_exposition *page, const struct mt_labels *process,
			 const char *reason, uint64_t count)
{
	struct mt_labels labels = *process;

	mt_labels_add(&labels, "reason", reason);
	mt_exposition_sample(page, &labels, count);
}

/* Reasons with a count of 0 are there, too: of a counter that appears with 1, rate() misses the
 * first step. Reasons that only a newer shim knows are one. */
static void write_cleanups(struct mt_exposition *page, const struct source *source,
			   const struct chosen *process)
{
	const struct mt_stats_head *head = &process->entry->head;

	(void)source;
	for (uint32_t reason = 0; reason < MT_REASON_COUNT; reason++)
		write_reason(page, &process->labels, mt_stats_word_reason(reason),
			     head->cleanups_by_reason[reason]);
	if (mt_stats_file_other_cleanups(head))
		write_reason(page, &process->labels, "other", mt_stats_file_other_cleanups(head));
}

static const struct source fixed[] = {
	{.metric = {.name = "mtshim_build",
		    .type = MT_METRIC_INFO,
		    .labels = "version",
		    .help = "the version of mtctl that wrote this page"},
	 .write_page = write_build},
	{.metric = {.name = "mtshim_processes",
		    .labels = "state",
		    .help = "shimmed processes: awake; asleep, without files; refused, "
			    "since their stats file is invalid or their MT_DIR can hold none; "
			    "unresponsive, since their mappings cannot be read in time: these may "
			    "be without the shim"},
	 .write_page = write_states},
	{.metric =
		 {.name = "mtshim_processes_left_out",
		  .help = "shimmed processes that are left out, since 500 larger ones are listed"},
	 .write_page = write_left_out},
	{.metric = {.name = "mtshim_up",
		    .labels = PROCESS,
		    .help = "1: the figures of the process are here; 0: its file or its MT_DIR is "
			    "refused"},
	 .write = write_up,
	 .always = true},
	{.metric = {.name = "mtshim_updated_timestamp_seconds",
		    .unit = "seconds",
		    .labels = PROCESS,
		    .decimals = 9,
		    .help = "when the process last wrote its figures, since 1970"},
	 .write = write_time},
	{.metric = {.name = "mtshim_process",
		    .type = MT_METRIC_INFO,
		    .labels = PROCESS ", allocator, mode, shim_version",
		    .help = "who serves malloc in the process, and how the shim reaches it"},
	 .write = write_process},
	{.metric = {.name = "mtshim_world_size",
		    .labels = PROCESS,
		    .help = "WORLD_SIZE: how many processes train together"},
	 .write = write_world,
	 .always = true},
	{.metric = {.name = "mtshim_cleanups",
		    .type = MT_METRIC_COUNTER,
		    .labels = PROCESS ", reason",
		    .help = "cleanups by what asked for them; several that were made as one count "
			    "as one"},
	 .write = write_cleanups},
	{.metric = {.name = "mtshim_rss_bytes",
		    .unit = "bytes",
		    .labels = PROCESS,
		    .help = "resident set size by the kernel, at the time of the request"},
	 .write = write_rss,
	 .always = true},
};

/* ---- figures ---- */

static void write_figure(struct mt_exposition *page, const struct source *source,
			 const struct chosen *process)
{
	const struct mt_stats_snapshot *from = &process->entry->head.snapshot;

	if (mt_figure_applies(source->figure, process->entry->uses_cuda) &&
	    mt_figure_is_known(source->figure, from))
		mt_exposition_sample(page, &process->labels, mt_figure_value(source->figure, from));
}

/* source->figure is NULL for the info metric. */
static void write_device(struct mt_exposition *page, const struct source *source,
			 const struct mt_stats_device *device, const struct mt_labels *process)
{
	struct mt_labels labels = *process;

	mt_labels_add_number(&labels, "device", device->ordinal);
	if (source->figure) {
		if (mt_figure_is_known(source->figure, device))
			mt_exposition_sample(page, &labels,
					     mt_figure_value(source->figure, device));
		return;
	}
	mt_labels_add(&labels, "pci", device->pci);
	mt_labels_add(&labels, "name", device->name);
	mt_labels_add(&labels, "mode", device->mode);
	mt_exposition_sample(page, &labels, 1);
}

/* In a forged file two devices may have one number. node_exporter refuses the whole page if a
 * series is there twice. */
static bool is_repeated(const struct mt_stats_device *devices, size_t index)
{
	for (size_t before = 0; before < index; before++)
		if (devices[before].ordinal == devices[index].ordinal)
			return true;
	return false;
}

static void write_devices(struct mt_exposition *page, const struct source *source,
			  const struct chosen *process)
{
	const struct mt_stats_device *devices = process->entry->devices;

	for (size_t i = 0; devices && i < process->entry->head.devices_count; i++)
		if (!is_repeated(devices, i))
			write_device(page, source, &devices[i], &process->labels);
}

/* more than all families */
#define SOURCES_MAX                                                                                \
	(sizeof(struct mt_stats_snapshot) / sizeof(uint64_t) +                                     \
	 sizeof(struct mt_stats_device) / sizeof(uint64_t) + sizeof(fixed) / sizeof(fixed[0]))

static const struct source device_info = {
	.metric = {.name = "mtshim_device",
		   .type = MT_METRIC_INFO,
		   .labels = DEVICE ", pci, name, mode",
		   .help = "a GPU of the process: its place on the machine, and what the shim does "
			   "with its memory; device is its number in the process, after "
			   "CUDA_VISIBLE_DEVICES"},
	.write = write_devices,
	.always = true,
};

/* ---- all of them ---- */

static size_t add_figures(struct source *list, enum mt_figure_list figures)
{
	bool of_devices = figures == MT_FIGURES_DEVICE;
	size_t count = 0;

	for (const struct mt_figure *figure = mt_figures(figures); figure->name; figure++) {
		struct source *source = &list[count];

		/* rss_bytes is written as the kernel has it; the ordinal is a label */
		if (strcmp(figure->name, of_devices ? "ordinal" : "rss_bytes") == 0)
			continue;
		*source = (struct source){.write = of_devices ? write_devices : write_figure,
					  .always = of_devices,
					  .figure = figure};
		mt_metric_of_figure(figure, of_devices ? "mtshim_device_" : "mtshim_",
				    &source->metric);
		source->metric.labels = of_devices ? DEVICE : PROCESS;
		count++;
	}
	return count;
}

/* Lists all families. The caller frees. */
static struct source *list_sources(size_t *out_count)
{
	size_t count = sizeof(fixed) / sizeof(fixed[0]);
	struct source *list = mt_error_check_memory(calloc(SOURCES_MAX, sizeof(*list)));

	memcpy(list, fixed, sizeof(fixed));
	count += add_figures(list + count, MT_FIGURES_PROCESS);
	list[count++] = device_info;
	count += add_figures(list + count, MT_FIGURES_DEVICE);
	for (size_t i = 0; i < count; i++) {
		mt_metric_name_sample(&list[i].metric);
		list[i].metric.unit = list[i].metric.unit ? list[i].metric.unit : "";
		list[i].metric.labels = list[i].metric.labels ? list[i].metric.labels : "";
	}
	*out_count = count;
	return list;
}

struct mt_metric *mt_openmetrics_families(size_t *out_count)
{
	struct source *sources = list_sources(out_count);
	struct mt_metric *list = mt_error_check_memory(calloc(*out_count, sizeof(*list)));

	for (size_t i = 0; i < *out_count; i++)
		list[i] = sources[i].metric;
	free(sources);
	return list;
}

/* ---- choosing the processes ---- */

static int compare_rss(const void *a, const void *b)
{
	const struct mt_process_list_entry *left = ((const struct chosen *)a)->entry,
					   *right = ((const struct chosen *)b)->entry;

	return (left->own.rss_bytes < right->own.rss_bytes) -
	       (left->own.rss_bytes > right->own.rss_bytes);
}

static int compare_pids(const void *a, const void *b)
{
	const struct mt_process_list_entry *left = ((const struct chosen *)a)->entry,
					   *right = ((const struct chosen *)b)->entry;

	return (left->process.pid > right->process.pid) - (left->process.pid < right->process.pid);
}

/* comm is the name of the process when the shim woke up: a program that shows its progress in its
 * name would be a new series at each step. */
static void fill_labels(struct chosen *chosen)
{
	const struct mt_process_list_entry *entry = chosen->entry;
	const char *comm = *entry->head.comm ? entry->head.comm : entry->process.comm;

	mt_labels_add_number(&chosen->labels, "pid", (uint64_t)entry->process.pid);
	mt_labels_add(&chosen->labels, "comm", comm);
	if (*entry->head.rank)
		mt_labels_add(&chosen->labels, "rank", entry->head.rank);
}

static void choose(struct sample *sample)
{
	sample->count = sample->processes->count;
	sample->list = mt_error_check_memory(calloc(sample->count + 1, sizeof(*sample->list)));
	for (size_t i = 0; i < sample->count; i++)
		sample->list[i].entry = &sample->processes->list[i];
	if (sample->count > PROCESSES_MAX) {
		qsort(sample->list, sample->count, sizeof(*sample->list), compare_rss);
		sample->count = PROCESSES_MAX;
		qsort(sample->list, sample->count, sizeof(*sample->list), compare_pids);
	}
	for (size_t i = 0; i < sample->count; i++)
		fill_labels(&sample->list[i]);
}

static void write_family(struct sample *sample, const struct source *source)
{
	mt_exposition_begin(sample->page, &source->metric);
	if (source->write_page)
		source->write_page(sample);
	for (size_t i = 0; source->write && i < sample->count; i++)
		if (source->always || sample->list[i].entry->state == MT_PROCESS_AWAKE)
			source->write(sample->page, source, &sample->list[i]);
}

void mt_openmetrics_each(const struct mt_process_list *processes, struct mt_exposition *page)
{
	struct sample sample = {.processes = processes, .page = page};
	size_t count;
	struct source *sources = list_sources(&count);

	choose(&sample);
	for (size_t i = 0; i < count; i++)
		write_family(&sample, &sources[i]);
	free(sources);
	free(sample.list);
}

char *mt_openmetrics_render(const struct mt_process_list *processes,
			    enum mt_exposition_format format, size_t *out_bytes)
{
	struct mt_exposition page = {.format = format};

	mt_openmetrics_each(processes, &page);
	return mt_exposition_end(&page, out_bytes);
}

/* ---- exposition ---- */

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

/* The stream of a page, which opens with its first text. */
static FILE *text_of(struct mt_exposition *page)
{
	if (!page->to)
		page->to = mt_error_check_memory(open_memstream(&page->text, &page->bytes));
	return page->to;
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
			fputs(escape, page->to);
		else
			putc(*help, page->to);
	}
}

void mt_labels_add(struct mt_labels *labels, const char *name, const char *value)
{
	const char *whole = value;
	char text[sizeof(labels->text)];
	size_t used =
		(size_t)snprintf(text, sizeof(text), "%s%s=\"", labels->used ? "," : "", name);

	for (; *value && used + 4 < sizeof(text); value++) {
		const char *escape = escape_of(*value);
		size_t length = escape ? 2 : 1;

		memcpy(text + used, escape ? escape : value, length);
		used += length;
	}
	if (*value || labels->used + used + 2 > sizeof(labels->text) ||
	    labels->count == MT_LABELS_MAX)
		return;
	labels->list[labels->count].name = name;
	labels->list[labels->count++].value = whole;
	memcpy(labels->text + labels->used, text, used);
	memcpy(labels->text + labels->used + used, "\"", 2);
	labels->used += used + 1;
}

void mt_labels_add_number(struct mt_labels *labels, const char *name, uint64_t value)
{
	char *text = labels->numbers[labels->numbers_count];

	if (labels->numbers_count == MT_LABEL_NUMBERS)
		return;
	labels->numbers_count++;
	snprintf(text, sizeof(labels->numbers[0]), "%" PRIu64, value);
	mt_labels_add(labels, name, text);
}

void mt_exposition_begin(struct mt_exposition *page, const struct mt_metric *metric)
{
	page->metric = metric;
	page->announced = false;
}

/* OpenMetrics names the family, the older format the samples. The older one has neither units nor
 * info metrics. */
static void announce(struct mt_exposition *page)
{
	const struct mt_metric *metric = page->metric;
	bool open = page->format == MT_EXPOSITION_OPENMETRICS;
	const char *name = open ? metric->name : metric->sample;

	fprintf(text_of(page), "# TYPE %s %s", name,
		mt_metric_type(open || metric->type != MT_METRIC_INFO ? metric->type
								      : MT_METRIC_GAUGE));
	if (open && *metric->unit)
		fprintf(page->to, "\n# UNIT %s %s", name, metric->unit);
	fprintf(page->to, "\n# HELP %s ", name);
	append_help(page, metric->help);
	putc('\n', page->to);
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
	size_t digits;

	if (page->take) {
		page->take(page->data, page->metric, labels, value);
		return;
	}
	digits = format_value(value, page->metric->decimals, number);
	if (!page->announced)
		announce(page);
	fputs_unlocked(page->metric->sample, page->to);
	if (labels && labels->used) {
		putc_unlocked('{', page->to);
		fwrite_unlocked(labels->text, 1, labels->used, page->to);
		putc_unlocked('}', page->to);
	}
	putc_unlocked(' ', page->to);
	fwrite_unlocked(number, 1, digits, page->to);
	putc_unlocked('\n', page->to);
}

char *mt_exposition_end(struct mt_exposition *page, size_t *out_bytes)
{
	fputs(page->format == MT_EXPOSITION_OPENMETRICS ? "# EOF\n" : "", text_of(page));
	if (fclose(page->to) != 0)
		mt_error_check_memory(NULL);
	*out_bytes = page->bytes;
	return page->text;
}
