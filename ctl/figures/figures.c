#include "ctl/figures/figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* of known_offset */
#define ALWAYS SIZE_MAX
#define APART  (SIZE_MAX - 1)

#define THOUSANDTHS "_thousandths"

/* For each list a struct with the members of that in the file at the same offsets. The names in the
 * column `known` are members, too. */
#define PSEUDO_MEMBERS uint64_t always, apart;

#define X(name, kind, known, recorded, help) uint64_t name;
struct snapshot_known {
	MT_STATS_FIELDS(X) PSEUDO_MEMBERS
};
struct device_known {
	MT_DEVICE_FIELDS(X) PSEUDO_MEMBERS
};
#undef X
#define X(name, known, figure) uint64_t name;
struct sample_known {
	uint64_t time_ns;
	MT_SAMPLE_FIELDS(X) PSEUDO_MEMBERS
};
#undef X
#define X(bits, name, known, help) uint##bits##_t name;
struct cleanup_known {
	MT_CLEANUP_FIELDS(X) PSEUDO_MEMBERS
};
#undef X
#define X(bits, name, known, label, help) uint##bits##_t name;
struct oom_known {
	MT_OOM_FIELDS(X) PSEUDO_MEMBERS
};
struct limit_report_known {
	MT_LIMIT_REPORT_FIELDS(X) PSEUDO_MEMBERS
};
#undef X

#define KNOWN_OFFSET(type, known)                                                                  \
	offsetof(struct type, known) == offsetof(struct type, always) ? ALWAYS                     \
	: offsetof(struct type, known) == offsetof(struct type, apart)                             \
		? APART                                                                            \
		: offsetof(struct type, known)
/* list##_known and mt_stats_##list are the structs; the rest are further members. */
#define ROW(list, figure, known, text, ...)                                                        \
	{.name = #figure,                                                                          \
	 .help = text,                                                                             \
	 .offset = offsetof(struct mt_stats_##list, figure),                                       \
	 .known_offset = KNOWN_OFFSET(list##_known, known),                                        \
	 .known_bytes = sizeof(((struct list##_known *)NULL)->known),                              \
	 __VA_ARGS__},

enum { KIND_gauge, KIND_counter, KIND_flag };

#define X(name, kind, known, from, help)                                                           \
	ROW(snapshot, name, known, help, .recorded = #from,                                        \
	    .is_counter = KIND_##kind == KIND_counter)
static const struct mt_figure process_figures[] = {MT_STATS_FIELDS(X){0}};
#undef X
#define X(name, kind, known, from, help)                                                           \
	ROW(device, name, known, help, .recorded = #from, .is_counter = KIND_##kind == KIND_counter)
static const struct mt_figure device_figures[] = {MT_DEVICE_FIELDS(X){0}};
#undef X
#define X(name, known, figure) ROW(sample, name, known, "", .label = #figure)
static const struct mt_figure sample_figures[] = {X(time_ns, always, ) MT_SAMPLE_FIELDS(X){0}};
#undef X
#define X(bits, name, known, help) ROW(cleanup, name, known, help, .label = "")
static const struct mt_figure cleanup_figures[] = {MT_CLEANUP_FIELDS(X){0}};
#undef X
#define X(bits, name, known, words, help) ROW(oom, name, known, help, .label = words)
static const struct mt_figure oom_figures[] = {MT_OOM_FIELDS(X){0}};
#undef X
#define X(bits, name, known, words, help) ROW(limit_report, name, known, help, .label = words)
static const struct mt_figure limit_report_figures[] = {MT_LIMIT_REPORT_FIELDS(X){0}};
#undef X

const struct mt_figure *mt_figures(enum mt_figure_list list)
{
	static const struct mt_figure *const lists[MT_FIGURE_LISTS] = {
		[MT_FIGURES_PROCESS] = process_figures,
		[MT_FIGURES_DEVICE] = device_figures,
		[MT_FIGURES_SAMPLE] = sample_figures,
		[MT_FIGURES_CLEANUP] = cleanup_figures,
		[MT_FIGURES_OOM] = oom_figures,
		[MT_FIGURES_LIMIT_REPORT] = limit_report_figures};

	return lists[list];
}

uint64_t mt_figure_value(const struct mt_figure *figure, const void *from)
{
	uint64_t value;

	memcpy(&value, (const char *)from + figure->offset, sizeof(value));
	return value;
}

bool mt_figure_is_known(const struct mt_figure *figure, const void *from)
{
	uint64_t known = 0;

	if (figure->known_offset == ALWAYS)
		return true;
	if (figure->known_offset != APART)
		memcpy(&known, (const char *)from + figure->known_offset, figure->known_bytes);
	return known != 0;
}

bool mt_figure_applies(const struct mt_figure *figure, bool uses_cuda)
{
	return uses_cuda || strncmp(figure->name, "gpu_", 4) != 0;
}

struct mt_short_text mt_figure_text(const struct mt_figure *figure, const void *from)
{
	uint64_t value = mt_figure_value(figure, from);

	if (!mt_figure_is_known(figure, from))
		return mt_text_format("-");
	if (mt_text_ends_with(figure->name, "_bytes"))
		return mt_text_bytes(value);
	if (mt_text_ends_with(figure->name, "_ns"))
		return mt_text_ns(value);
	if (mt_text_ends_with(figure->name, "_count"))
		return mt_text_count(value);
	if (mt_text_ends_with(figure->name, "_ms"))
		return mt_text_format("%s ms", mt_text_count(value).text);
	if (mt_text_ends_with(figure->name, "_ratio" THOUSANDTHS))
		return mt_text_format("%.1f %%", (double)value / 10);
	if (mt_text_ends_with(figure->name, THOUSANDTHS))
		return mt_text_format("%.3f", (double)value / 1000);
	return mt_text_format("%" PRIu64, value);
}

/* The name under which text and JSON show it: _thousandths are shown as a fraction. */
static struct mt_short_text title_of(const struct mt_figure *figure)
{
	size_t length = strlen(figure->name);

	if (mt_text_ends_with(figure->name, THOUSANDTHS))
		length -= sizeof(THOUSANDTHS) - 1;
	return mt_text_format("%.*s", (int)length, figure->name);
}

static json_t *value_json(const struct mt_figure *figure, const void *from)
{
	uint64_t value = mt_figure_value(figure, from);

	if (!mt_figure_is_known(figure, from))
		return json_null();
	return mt_text_ends_with(figure->name, THOUSANDTHS) ? json_real((double)value / 1000)
							    : mt_json_u64(value);
}

void mt_figures_set_json(json_t *object, enum mt_figure_list list, const void *from)
{
	for (const struct mt_figure *figure = mt_figures(list); figure->name; figure++)
		if (figure->known_offset != APART)
			mt_json_set(object, title_of(figure).text, value_json(figure, from));
}

void mt_figures_set_recorded(json_t *object, enum mt_figure_list list, const void *from,
			     bool uses_cuda)
{
	for (const struct mt_figure *figure = mt_figures(list); figure->name; figure++)
		if (strcmp(figure->recorded, "shim") == 0 && mt_figure_is_known(figure, from) &&
		    mt_figure_applies(figure, uses_cuda))
			mt_json_set_u64(object, figure->name, mt_figure_value(figure, from));
}

/* ---- tables ---- */

struct mt_table *mt_process_table(const struct mt_stats_head *head)
{
	struct mt_table *table = mt_table_new("<FIGURE|>VALUE|<MEANING");
	bool uses_cuda = head->cuda[0] || head->devices_count;

	for (const struct mt_figure *figure = mt_figures(MT_FIGURES_PROCESS); figure->name;
	     figure++)
		if (mt_figure_applies(figure, uses_cuda))
			mt_table_add_row(table, title_of(figure).text,
					 mt_figure_text(figure, &head->snapshot).text, figure->help,
					 NULL);
	return table;
}

#define PEAK           "_peak_bytes"
#define LIVE           "_live_bytes"
#define FIELD_NAME_MAX 64

/* The peak of allocated_bytes is allocated_peak_bytes. NULL: it has none. */
static const struct mt_figure *peak_of(const char *name)
{
	const struct mt_figure *figure = mt_figures(MT_FIGURES_DEVICE);
	char peak[FIELD_NAME_MAX];
	int stem = (int)(strlen(name) - strlen("_bytes"));

	if (!mt_text_ends_with(name, "_bytes"))
		return NULL;
	snprintf(peak, sizeof(peak), "%.*s" PEAK, stem, name);
	while (figure->name && strcmp(figure->name, peak) != 0)
		figure++;
	return figure->name ? figure : NULL;
}

static void add_row(struct mt_table *table, const struct mt_stats_device *device,
		    const struct mt_figure *figure)
{
	const struct mt_figure *peak = peak_of(figure->name);

	/* A kind of memory of which there is none. */
	if (mt_text_ends_with(figure->name, LIVE) && !mt_figure_value(figure, device))
		return;
	mt_table_add_row(table, figure->name, mt_figure_text(figure, device).text,
			 peak ? mt_figure_text(peak, device).text : "", figure->help, NULL);
}

struct mt_table *mt_device_table(const struct mt_stats_device *device)
{
	struct mt_table *table = mt_table_new("<FIGURE|>NOW|>PEAK|<MEANING");

	for (const struct mt_figure *figure = mt_figures(MT_FIGURES_DEVICE); figure->name; figure++)
		/* the lines around the table have what may be unknown */
		if (figure->known_offset == ALWAYS && !mt_text_ends_with(figure->name, "_known") &&
		    strcmp(figure->name, "ordinal") != 0 && !mt_text_ends_with(figure->name, PEAK))
			add_row(table, device, figure);
	return table;
}

/* ---- words ---- */

#define WORTH_BYTES (UINT64_C(1) << 20)

/* The word of this number, "?" if there is none. */
static const char *word(const char *const *words, size_t count, uint64_t number)
{
	return number < count ? words[number] : "?";
}
#define WORD(words, number) word(words, sizeof(words) / sizeof((words)[0]), number)

/* The function that returns the text of a row of a list, X(name, text). */
#define X(name, text) text,
#define WORDS(function, list)                                                                      \
	const char *function(uint64_t number)                                                      \
	{                                                                                          \
		static const char *const words[] = {list(X)};                                      \
                                                                                                   \
		return WORD(words, number);                                                        \
	}
WORDS(mt_stats_word_reason, MT_REASONS)
WORDS(mt_stats_word_gc_state, MT_GC_STATES)
WORDS(mt_stats_word_gpu_state, MT_GPU_STATES)
WORDS(mt_stats_word_mode, MT_MODES)
WORDS(mt_stats_word_python, MT_PYTHON_USES)
#undef WORDS
#undef X

/* ---- out of device memory ---- */

#define CACHE_BYTES  (1024 * MT_MIB)
#define LIVE_PERCENT 80u
/* the process's own context, kernels and libraries: up to 1 GiB, or this share of a small device */
#define CONTEXT_BYTES (1024 * MT_MIB)
#define CONTEXT_SHARE 8u

/* What is neither free nor allocated by this process, if that is more than its own context may
 * be. */
static uint64_t unexplained_bytes(const struct mt_stats_oom *oom)
{
	uint64_t rest = mt_sat_sub(oom->total_bytes, oom->free_bytes + oom->reserved_bytes);

	return rest > mt_min_u64(oom->total_bytes / CONTEXT_SHARE, CONTEXT_BYTES) ? rest : 0;
}

enum mt_oom_cause mt_stats_oom_cause(const struct mt_stats_oom *oom)
{
	uint64_t missing = mt_sat_sub(oom->asked_bytes, oom->free_bytes);
	uint64_t others = oom->others_known ? oom->others_bytes : unexplained_bytes(oom);

	/* Before all else: an empty device would not do. */
	if (oom->total_bytes && oom->asked_bytes > oom->total_bytes)
		return MT_OOM_REQUEST;
	if (mt_sat_add(oom->idle_bytes, oom->framework_idle_bytes) > CACHE_BYTES)
		return MT_OOM_CACHE;
	if (!oom->total_bytes)
		return MT_OOM_UNKNOWN;
	if (oom->allocated_bytes >= oom->total_bytes / 100 * LIVE_PERCENT)
		return MT_OOM_LIVE;
	/* The device has room: a limit of the driver, or memory that was freed since the call. */
	if (!missing)
		return MT_OOM_UNKNOWN;
	if (others >= missing)
		return MT_OOM_OTHERS;
	return oom->allocated_bytes >= missing ? MT_OOM_LIVE : MT_OOM_UNKNOWN;
}

const char *mt_stats_word_oom_cause(enum mt_oom_cause cause)
{
#define X(name, text, advice) text,
	static const char *const words[] = {MT_OOM_CAUSES(X)};
#undef X

	return WORD(words, cause);
}

const char *mt_stats_word_oom_advice(enum mt_oom_cause cause)
{
#define X(name, text, advice) advice,
	static const char *const words[] = {MT_OOM_CAUSES(X)};
#undef X

	return WORD(words, cause);
}

const char *mt_stats_word_level(uint64_t level)
{
	static const char *const words[MT_LEVEL_COUNT] = {"purge", "light", "heavy"};

	return WORD(words, level);
}

static bool fell(uint64_t before, uint64_t after)
{
	return before > after && before - after >= WORTH_BYTES;
}

bool mt_stats_has_freed(const struct mt_stats_cleanup *cleanup)
{
	return cleanup->result == 1 &&
	       (fell(cleanup->rss_before_bytes, cleanup->rss_after_bytes) ||
		fell(cleanup->anon_before_bytes, cleanup->anon_after_bytes) ||
		fell(cleanup->gpu_before_bytes, cleanup->gpu_after_bytes) ||
		fell(cleanup->pinned_before_bytes, cleanup->pinned_after_bytes));
}

const char *mt_stats_word_outcome(const struct mt_stats_cleanup *cleanup)
{
	static const char *const words[] = {"nothing to free", "freed less than 1 MB",
					    "nothing could be trimmed"};

	if (mt_stats_has_freed(cleanup))
		return "freed";
	return cleanup->result <= MT_NULL_RESULT ? words[cleanup->result] : "?";
}

const char *mt_stats_word_disposition(uint64_t disposition)
{
	static const char *const words[] = {"none", "ours",    "",
					    "lost", "ignored", "the program's alone"};

	return WORD(words, disposition);
}

const char *mt_stats_word_pressure_level(uint64_t level)
{
	static const char *const words[MT_PRESSURE_LEVEL_COUNT] = {"none", "warn", "critical"};

	return WORD(words, level);
}

const char *mt_stats_word_pressure_source(size_t bit)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_PRESSURE_SOURCES(X)
#undef X
	};

	return bit < MT_PRESSURE_SOURCE_COUNT ? words[bit] : NULL;
}

const char *mt_stats_word_framework(size_t place, uint32_t *out_bit)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} frameworks[] = {{MT_FRAMEWORK_TORCH, "torch"},
			  {MT_FRAMEWORK_CUPY, "cupy"},
			  {MT_FRAMEWORK_NUMBA, "numba"}};

	if (place >= sizeof(frameworks) / sizeof(frameworks[0]))
		return NULL;
	*out_bit = frameworks[place].bit;
	return frameworks[place].word;
}

struct mt_short_text mt_stats_word_driver(const struct mt_stats_head *head)
{
	if (!head->driver_version)
		return mt_text_format("unknown");
	return mt_text_format("%u.%u", head->driver_version / 1000,
			      head->driver_version % 1000 / 10);
}

double mt_stats_percent(uint64_t used_bytes, uint64_t limit_bytes)
{
	return limit_bytes ? 100.0 * (double)used_bytes / (double)limit_bytes : 0;
}

struct mt_short_text mt_stats_word_pressure(const struct mt_stats_cleanup *cleanup)
{
	struct mt_short_text text = {"-"};
	const char *word;
	size_t used;

	if (!cleanup->pressure_sources)
		return text;
	used = (size_t)snprintf(text.text, sizeof(text.text), "%s",
				mt_stats_word_pressure_level(cleanup->pressure_level));
	if (cleanup->pressure_limit_bytes)
		used += (size_t)snprintf(text.text + used, sizeof(text.text) - used, " %.1f %%",
					 mt_stats_percent(cleanup->pressure_used_bytes,
							  cleanup->pressure_limit_bytes));
	for (size_t bit = 0;
	     used < sizeof(text.text) && (word = mt_stats_word_pressure_source(bit)); bit++)
		if (cleanup->pressure_sources & (1u << bit))
			used += (size_t)snprintf(text.text + used, sizeof(text.text) - used, ", %s",
						 word);
	return text;
}

/* ---- the profile ---- */

bool mt_stats_has_low_rlimit(const struct mt_stats_head *head)
{
	return head->mode == MT_MODE_LIBC && strstr(head->evidence, "RLIMIT_AS or RLIMIT_DATA");
}

const char *mt_stats_why_no_profile(const struct mt_stats_head *head)
{
	bool is_shadowed = head->mode == MT_MODE_SHADOWED;
	const char *const texts[][2] = {
		{"its heap profiler was not made ready; start the program with MT_PROF=on",
		 "--python shows the lines of this Python program without a restart; for stacks of "
		 "C start it with MT_PROF=on"},
		{"the allocator in use has no heap profiler; start the program with MT_PROF=on and "
		 "MT_ALLOCATOR=jemalloc",
		 "--python shows the lines of this Python program without a restart; for stacks of "
		 "C start it with MT_PROF=on and MT_ALLOCATOR=jemalloc"},
		{is_shadowed ? "something else serves malloc, of which the library has no profile"
			     : head->evidence,
		 "--python shows the lines of this Python program without a restart"}};
	bool is_kept = head->mode == MT_MODE_LIBC && !mt_stats_has_low_rlimit(head);
	int row = is_shadowed || is_kept ? 2 : head->mode != MT_MODE_JEMALLOC;

	return head->snapshot.prof_state ? NULL
					 : texts[row][head->python != MT_PYTHON_USES_UNKNOWN];
}
