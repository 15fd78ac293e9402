#include "ctl/metrics/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "sys/saturating.h"

#define CELL_MAX 80u

/* A program that ends takes its data down first: an interpreter frees its objects one by one. That
 * fall, which lasts until the end, is no work. It has no level part of LEVEL_S, in which a program
 * would work on with less memory. */
#define TEAR_DOWN_S 5.0
#define LEVEL_S     0.3
#define LEVEL_PART  0.01

/* One look may be in a peak, so several decide: REST_S of them and REST_LOOKS, but not more than
 * the last part of a short run. */
#define REST_S     1.0
#define REST_LOOKS 5u
#define REST_PART  4u
#define REST_MOST  64u

/* The look at which the tear-down begins, or the last one. There is one at least. */
static size_t find_tear_down(const struct mt_series *rss)
{
	size_t at = rss->count - 1, next;
	double level_since = rss->list[at].x;

	for (next = at;
	     next-- > 0 && rss->list[rss->count - 1].x - rss->list[next].x < TEAR_DOWN_S;) {
		double before = rss->list[next].y, now = rss->list[at].y;

		if (before > now * (1 + LEVEL_PART)) {
			at = next;
			level_since = rss->list[at].x;
		} else if (!(before >= now * (1 - LEVEL_PART)) ||
			   level_since - rss->list[next].x > LEVEL_S) {
			break;
		}
	}
	return at;
}

static double end_of_work(const struct mt_recording *recording, const struct mt_series *rss)
{
	double looks[REST_MOST];
	size_t at, most, count = 0;

	if (!rss->count || !recording->ended)
		return mt_series_sum_up(rss).end;
	at = find_tear_down(rss);
	most = mt_min_u64(at / REST_PART + 1, REST_MOST);
	for (size_t i = 0; i < most; i++) {
		const struct mt_point *look = &rss->list[at - i];

		if (count >= REST_LOOKS && rss->list[at].x - look->x >= REST_S)
			break;
		if (!isnan(look->y))
			looks[count++] = look->y;
	}
	qsort(looks, count, sizeof(*looks), mt_series_compare);
	return count ? looks[(count - 1) / 2] : mt_series_sum_up(rss).end;
}

struct mt_series_sums mt_run_sum_up(const struct mt_recording *recording, uint64_t pid, double low,
				    const struct mt_series *rss)
{
	struct mt_series_sums sums = mt_series_sum_up(rss);

	if (low <= 0 && (!pid || pid == recording->pid)) {
		sums.peak = fmax(sums.peak, (double)recording->rss_peak_bytes);
		sums.end = end_of_work(recording, rss);
	}
	return sums;
}

enum mt_err mt_run_find_part(const struct mt_recording *recording, const struct mt_run_part *part,
			     double *low, double *high, struct mt_error_reason *why)
{
	double end =
		(double)(mt_recording_end_ns(recording) - mt_recording_begin_ns(recording)) / 1e9;

	if (!recording->samples_count)
		return mt_error_because(why, MT_ERR_INVALID, "nothing to be drawn: no samples");
	if (part->pid && !mt_recording_process(recording, part->pid))
		return mt_error_because(why, MT_ERR_INVALID,
					"no process %" PRIu64 " in this recording", part->pid);
	*low = part->since_s;
	if (part->last_s > 0)
		*low = fmax(*low, end - part->last_s);
	*high = end;
	return *low <= end
		       ? MT_ERR_OK
		       : mt_error_because(why, MT_ERR_INVALID,
					  "nothing to be drawn: it ends after %.1f seconds", end);
}

void mt_run_of(const struct mt_recording *recording, const char *label, struct mt_run *out)
{
	uint64_t origin = mt_recording_begin_ns(recording);
	struct mt_series rss = mt_series_of(recording, MT_RECORDING_RSS, 0, origin);
	struct mt_series gpu = mt_series_of(recording, MT_RECORDING_GPU_RESERVED, 0, origin);

	*out = (struct mt_run){.recording = recording};
	mt_text_clean_utf8(label ? label : recording->name, out->name, sizeof(out->name));
	out->rss = mt_run_sum_up(recording, 0, 0, &rss);
	out->gpu = mt_series_sum_up(&gpu);
	out->seconds = (double)(mt_recording_end_ns(recording) - origin) / 1e9;
	out->cpu_s =
		recording->cpu_ns == MT_RECORDING_UNKNOWN ? NAN : (double)recording->cpu_ns / 1e9;
	for (size_t i = 0; i < recording->marks_count; i++)
		out->cleanups_count += recording->marks[i].kind == MT_RECORDING_CLEANUP;
	mt_series_free(&rss);
	mt_series_free(&gpu);
}

static bool is_of_tree(const struct mt_recording *recording)
{
	return json_is_true(json_object_get(recording->header, "tree"));
}

enum mt_exit mt_runs_read(char **files, size_t count, const char *const *labels,
			  struct mt_runs *out)
{
	struct mt_error_reason why;

	*out = (struct mt_runs){
		.recordings = mt_error_check_memory(calloc(count, sizeof(*out->recordings))),
		.list = mt_error_check_memory(calloc(count, sizeof(*out->list)))};
	for (size_t i = 0; i < count; i++) {
		if (mt_recording_read(files[i], &out->recordings[i], &why) != MT_ERR_OK) {
			mt_runs_free(out);
			return mt_error_fail(MT_EXIT_USAGE, &why);
		}
		out->count++;
		if (is_of_tree(&out->recordings[i]) != is_of_tree(&out->recordings[0])) {
			mt_error_say("%.100s and %.100s: one is of a whole tree, the other of one "
				     "process; record both with --tree, or neither",
				     files[0], files[i]);
			mt_runs_free(out);
			return MT_EXIT_USAGE;
		}
		if (*out->recordings[i].warning.text)
			mt_error_say("%s", out->recordings[i].warning.text);
		mt_run_of(&out->recordings[i], labels ? labels[i] : NULL, &out->list[i]);
	}
	return MT_EXIT_OK;
}

void mt_runs_free(struct mt_runs *runs)
{
	for (size_t i = 0; i < runs->count; i++)
		mt_recording_free(&runs->recordings[i]);
	free(runs->recordings);
	free(runs->list);
	*runs = (struct mt_runs){0};
}

static const struct figure {
	const char *title, *change;
	size_t offset;
} figures[MT_RUN_COLUMNS] = {
#define X(id, title, change, member) {title, change, offsetof(struct mt_run, member)},
	MT_RUN_FIGURES(X)
#undef X
		[MT_RUN_CLEANUPS] = {.title = "cleanups"},
	[MT_RUN_EXIT] = {.title = "exit code"},
};

const char *mt_run_title(enum mt_run_column column)
{
	return figures[column].title;
}

size_t mt_run_columns(const struct mt_run *runs, size_t count, enum mt_run_column *out)
{
	bool wanted[MT_RUN_COLUMNS] = {[MT_RUN_PEAK] = true,
				       [MT_RUN_MEAN] = true,
				       [MT_RUN_END] = true,
				       [MT_RUN_TIME] = true};
	size_t columns_count = 0;

	for (size_t i = 0; i < count; i++) {
		wanted[MT_RUN_GPU] |= runs[i].gpu.peak > 0;
		wanted[MT_RUN_CPU] |= !isnan(runs[i].cpu_s);
		wanted[MT_RUN_CLEANUPS] |= runs[i].cleanups_count > 0;
		wanted[MT_RUN_EXIT] |= runs[i].recording->ended;
	}
	for (int column = 0; column < MT_RUN_COLUMNS; column++)
		if (wanted[column])
			out[columns_count++] = (enum mt_run_column)column;
	return columns_count;
}

/* Short times have more decimals: the printed times give the printed difference in %. */
static struct mt_short_text time_text(double seconds)
{
	if (isnan(seconds))
		return mt_text_format("-");
	if (seconds < 120)
		return mt_text_format("%.*f s", seconds < 1 ? 3 : seconds < 10 ? 2 : 1, seconds);
	if (seconds < 7200)
		return mt_text_format("%.1f min", seconds / 60);
	return mt_text_format("%.1f h", seconds / 3600);
}

/* NAN: the column has no value that runs are held against. */
static double value_of(const struct mt_run *run, enum mt_run_column column)
{
	double value = NAN;

	if (figures[column].change)
		memcpy(&value, (const char *)run + figures[column].offset, sizeof(value));
	return value;
}

/* The difference to the first run in %; NAN: not known of both, or the first has 0. */
static double change_pct(const struct mt_run *run, const struct mt_run *first,
			 enum mt_run_column column)
{
	double value = value_of(run, column), base = first ? value_of(first, column) : NAN;

	return base > 0 ? (value - base) / base * 100 : NAN;
}

void mt_run_cell(const struct mt_run *run, const struct mt_run *first, enum mt_run_column column,
		 char *out, size_t out_bytes)
{
	double value = value_of(run, column), change = change_pct(run, first, column);
	size_t used;

	if (column == MT_RUN_CLEANUPS)
		snprintf(out, out_bytes, "%zu", run->cleanups_count);
	else if (column == MT_RUN_EXIT && run->recording->ended)
		snprintf(out, out_bytes, "%s%lu", run->recording->killed ? "signal " : "",
			 (unsigned long)run->recording->code);
	else if (column == MT_RUN_EXIT)
		snprintf(out, out_bytes, "-");
	else if (column == MT_RUN_TIME || column == MT_RUN_CPU)
		snprintf(out, out_bytes, "%s", time_text(value).text);
	else
		snprintf(out, out_bytes, "%s", mt_text_bytes(mt_text_round_u64(value)).text);
	used = strlen(out);
	if (fabs(change) < 99999)
		snprintf(out + used, out_bytes - used, " (%+.0f %%)", change);
}

void mt_run_print_table(const struct mt_run *runs, size_t count)
{
	enum mt_run_column columns[MT_RUN_COLUMNS];
	size_t columns_count = mt_run_columns(runs, count, columns);
	struct mt_table *table = mt_table_new("<RUN");
	char text[CELL_MAX];

	for (size_t j = 0; j < columns_count; j++) {
		snprintf(text, sizeof(text), ">%s", mt_run_title(columns[j]));
		mt_table_add_columns(table, text);
	}
	for (size_t i = 0; i < count; i++) {
		mt_table_add(table, runs[i].name);
		for (size_t j = 0; j < columns_count; j++) {
			mt_run_cell(&runs[i], i ? runs : NULL, columns[j], text, sizeof(text));
			mt_table_add(table, text);
		}
	}
	mt_table_print(table);
}

static json_t *change_json(const struct mt_run *run, const struct mt_run *first)
{
	json_t *object;

	if (!first)
		return json_null();
	object = json_object();
	for (int column = 0; figures[column].change; column++) {
		double change = change_pct(run, first, (enum mt_run_column)column);

		mt_json_set(object, figures[column].change,
			    isnan(change) ? json_null() : json_real(change));
	}
	return object;
}

static json_t *run_json(const struct mt_run *run, const struct mt_run *first)
{
	const struct mt_recording *recording = run->recording;
	json_t *object = json_object();

	mt_json_set_text(object, "name", run->name);
	mt_json_set_u64(object, "rss_peak_bytes", mt_text_round_u64(run->rss.peak));
	mt_json_set_u64(object, "rss_mean_bytes", mt_text_round_u64(run->rss.mean));
	mt_json_set_u64(object, "rss_end_bytes", mt_text_round_u64(run->rss.end));
	mt_json_set_u64_if(object, "gpu_reserved_peak_bytes", run->gpu.peak > 0,
			   mt_text_round_u64(run->gpu.peak));
	mt_json_set_u64(object, "duration_ns", mt_text_round_u64(run->seconds * 1e9));
	mt_json_set_u64_if(object, "cpu_ns", recording->cpu_ns != MT_RECORDING_UNKNOWN,
			   recording->cpu_ns);
	mt_json_set_u64(object, "cleanups_count", run->cleanups_count);
	mt_json_set_u64_if(object, "exit_code", recording->ended && !recording->killed,
			   recording->code);
	mt_json_set_u64_if(object, "signal", recording->ended && recording->killed,
			   recording->code);
	mt_json_set(object, "change", change_json(run, first));
	return object;
}

void mt_run_print_json(const struct mt_run *runs, size_t count)
{
	json_t *object = json_object(), *list = json_array();

	for (size_t i = 0; i < count; i++)
		mt_json_append(list, run_json(&runs[i], i ? runs : NULL));
	mt_json_set(object, "runs", list);
	mt_json_print(object, true);
}
