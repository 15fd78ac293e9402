#include "ctl/ui/top/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/channel/target.h"
#include "ctl/figures/figures.h"
#include "ctl/output/error.h"
#include "ctl/output/text.h"
#include "sys/saturating.h"

/* ---- history ---- */

#define SPAN_MIN_NS   (60u * UINT64_C(1000000000))
#define CLOCK_STEP_NS (10u * UINT64_C(1000000000))

static const struct mt_top_point *point_at(const struct mt_top_history *history, size_t index)
{
	return &history->points[(history->first + index) % MT_TOP_HISTORY_POINTS];
}

/* Keeps the larger one of the last two at the time of the earlier one, so that a peak between two
 * updates is not lost. */
static void merge_last(struct mt_top_history *history)
{
	struct mt_top_point *before =
		&history->points[(history->first + history->count - 2) % MT_TOP_HISTORY_POINTS];
	const struct mt_top_point last = *point_at(history, history->count - 1);
	uint64_t time_ns = before->time_ns;

	if (last.rss_bytes > before->rss_bytes)
		*before = last;
	before->time_ns = time_ns;
	history->count--;
}

void mt_top_history_add(struct mt_top_history *history, const struct mt_top_point *point)
{
	uint64_t last_ns = history->count ? point_at(history, history->count - 1)->time_ns : 0;

	if (mt_sat_sub(last_ns, point->time_ns) > CLOCK_STEP_NS)
		history->count = 0; /* the clock was set back; two readings may cross by less */
	if (history->count && point->time_ns <= last_ns)
		return;
	/* three points in the time of two: the middle one goes; the newest one stays as it is */
	if (history->count >= 2 && point->time_ns - point_at(history, history->count - 2)->time_ns <
					   2 * (MT_TOP_HISTORY_NS / MT_TOP_HISTORY_POINTS))
		merge_last(history);
	if (history->count == MT_TOP_HISTORY_POINTS)
		history->first = (history->first + 1) % MT_TOP_HISTORY_POINTS;
	else
		history->count++;
	history->points[(history->first + history->count - 1) % MT_TOP_HISTORY_POINTS] = *point;
}

void mt_top_history_seed(struct mt_top_history *history, const struct mt_stats_file *file,
			 uint64_t now_ns)
{
	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample = mt_stats_file_sample(file, i);
		const struct mt_top_point point = {sample->time_ns, sample->rss_bytes,
						   mt_memory_parts_of_sample(sample)};

		/* Of two times out of order nobody knows which is wrong. */
		if (history->count &&
		    sample->time_ns <= point_at(history, history->count - 1)->time_ns)
			continue;
		if (sample->time_ns && sample->time_ns < now_ns &&
		    now_ns - sample->time_ns < MT_TOP_HISTORY_NS)
			mt_top_history_add(history, &point);
	}
}

uint64_t mt_top_history_span(const struct mt_top_history *history, uint64_t now_ns)
{
	uint64_t first_ns = history->count ? point_at(history, 0)->time_ns : now_ns;
	uint64_t span_ns = now_ns > first_ns ? now_ns - first_ns : 0;

	if (span_ns > MT_TOP_HISTORY_NS)
		return MT_TOP_HISTORY_NS;
	return span_ns < SPAN_MIN_NS ? SPAN_MIN_NS : span_ns;
}

void mt_top_history_resample(const struct mt_top_history *history, uint64_t now_ns,
			     struct mt_top_point *out, size_t count)
{
	uint64_t span_ns = mt_top_history_span(history, now_ns),
		 start_ns = now_ns > span_ns ? now_ns - span_ns : 0;
	struct mt_top_point before = {0};
	size_t next = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t end_ns =
			start_ns + (uint64_t)((double)span_ns * (double)(i + 1) / (double)count);
		bool is_first = true;

		out[i] = before;
		for (; next < history->count &&
		       (point_at(history, next)->time_ns <= end_ns || i + 1 == count);
		     next++) {
			const struct mt_top_point *point = point_at(history, next);

			before = *point;
			if (is_first || point->rss_bytes > out[i].rss_bytes)
				out[i] = *point;
			/* too old: only the value at the start of the first part */
			is_first = point->time_ns < start_ns;
		}
	}
}

/* ---- small charts out of characters ---- */

#define LEVELS     8
#define TREND_PART 50 /* of the most: 2 % */

/* The least and the most RSS of the points that are known. */
struct range {
	uint64_t least, most;
};

static struct range range_of(const struct mt_top_point *points, size_t count)
{
	struct range range = {UINT64_MAX, 0};

	for (size_t i = 0; i < count; i++) {
		if (!points[i].time_ns)
			continue;
		range.least = mt_min_u64(range.least, points[i].rss_bytes);
		range.most = mt_max_u64(range.most, points[i].rss_bytes);
	}
	return range;
}

/* A level of 1 for the least, LEVELS for the most. What moves by less than TREND_PART of the most
 * looks flat: then the range is in the middle of one that is so large. */
static int trend_level(const struct range *range, uint64_t bytes)
{
	double span = (double)(range->most - range->least),
	       least_span = (double)range->most / TREND_PART, low = (double)range->least;

	if (span < least_span) {
		low -= (least_span - span) / 2;
		span = least_span;
	}
	return span > 0 ? 1 + (int)(((double)bytes - low) / span * (LEVELS - 1) + 0.5) : 1;
}

void mt_top_draw_trend(struct mt_cells *canvas, struct mt_cell_place at,
		       const struct mt_top_history *history, uint64_t now_ns)
{
	size_t count = at.end > at.column ? (size_t)(at.end - at.column) : 0;
	struct mt_top_point *points;
	struct range range;

	if (!count)
		return;
	points = mt_error_check_memory(calloc(count, sizeof(*points)));
	mt_top_history_resample(history, now_ns, points, count);
	range = range_of(points, count);
	for (size_t i = 0; i < count; i++, at.column++)
		if (points[i].time_ns)
			mt_cells_put_glyph(
				canvas, at, MT_STYLE_TREND,
				mt_cells_level_glyph(canvas->unicode,
						     trend_level(&range, points[i].rss_bytes)));
	free(points);
}

/* Characters of the parts without colours. */
static wchar_t part_glyph(const struct mt_cells *canvas, enum mt_cell_style style)
{
	if (canvas->coloured || style < MT_STYLE_LIVE || style > MT_STYLE_OTHER)
		return L'|';
	return mt_memory_part_cell(canvas, (enum mt_memory_part)(style - MT_STYLE_LIVE));
}

void mt_top_draw_bar(struct mt_cells *canvas, struct mt_cell_place at, const struct mt_top_bar *bar)
{
	int left = at.column + 1, width = at.end - at.column - 2, column = left;
	uint64_t sum = 0;
	struct mt_cell_place inside = {at.row, left, at.end - 1};

	if (width < 1)
		return;
	mt_cells_put(canvas, at, MT_STYLE_BOLD, "[");
	for (const struct mt_top_part *part = bar->parts;
	     part->style != MT_STYLE_PLAIN && bar->total_bytes; part++) {
		int end;

		sum = part->bytes > UINT64_MAX - sum ? UINT64_MAX : sum + part->bytes;
		end = left + (int)((double)(sum < bar->total_bytes ? sum : bar->total_bytes) /
					   (double)bar->total_bytes * width +
				   0.5);
		for (; column < end; column++)
			mt_cells_put_glyph(canvas,
					   (struct mt_cell_place){at.row, column, at.end - 1},
					   part->style, part_glyph(canvas, part->style));
	}
	mt_cells_put_right(canvas, inside, MT_STYLE_BOLD, bar->text);
	mt_cells_put(canvas, (struct mt_cell_place){at.row, at.end - 1, at.end}, MT_STYLE_BOLD,
		     "]");
}

/* ---- marks ---- */

static struct mt_area_mark mark_of(const struct mt_cleanup_entry *entry)
{
	const struct mt_stats_cleanup *cleanup = entry->cleanup;

	return (struct mt_area_mark){.time_ns = cleanup->time_ns,
				     .letter = cleanup->reason == MT_REASON_ROUND
						       ? 'r'
						       : mt_area_mark_letter(cleanup->level),
				     .has_freed = mt_stats_has_freed(cleanup) ||
						  (entry->late && mt_stats_has_freed(entry->late)),
				     .is_for_pressure = cleanup->pressure_sources != 0};
}

void mt_top_marks_read(struct mt_top_marks *marks, const struct mt_stats_file *file)
{
	struct mt_cleanup_entry *entries =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*entries)));

	marks->count = mt_cleanup_history(file, entries);
	for (size_t i = 0; i < marks->count; i++)
		marks->list[i] = mark_of(&entries[i]);
	marks->kept_since_ns = mt_cleanup_kept_since_ns(file);
	free(entries);
}

struct mt_top_id mt_top_row_id(const struct mt_top_row *row)
{
	return (struct mt_top_id){row->process.pid, row->process.start_ticks};
}

bool mt_top_id_same(struct mt_top_id a, struct mt_top_id b)
{
	return a.pid == b.pid && a.start_ticks == b.start_ticks;
}

void mt_top_row_fill(struct mt_top_row *row, const struct mt_process_list_entry *entry)
{
	const struct mt_stats_snapshot *now = &entry->head.snapshot;

	row->process = entry->process;
	mt_process_title(entry->process.command, row->title, sizeof(row->title));
	row->parent = entry->parent;
	row->state = entry->state;
	row->why = entry->why;
	row->uses_cuda = entry->uses_cuda;
	row->own = entry->own;
	row->tree = entry->tree;
	if (entry->state != MT_PROCESS_AWAKE)
		return;
	row->figures = (struct mt_top_figures){.peak_bytes = now->rss_peak_bytes,
					       .purge_count = now->purge_count,
					       .light_count = now->light_count,
					       .heavy_count = now->heavy_count,
					       .limit_bytes = now->pressure_limit_bytes,
					       .limit_used_bytes = now->pressure_used_bytes};
	memcpy(row->rank, entry->head.rank, sizeof(row->rank));
	row->pressure_level = now->pressure_level;
	if (now->uptime_ms)
		row->budget_used_pct = 100.0 *
				       ((double)now->purge_cost_ns + (double)now->refault_cost_ns) /
				       ((double)now->uptime_ms * 1e6);
}

struct mt_top_cleanup mt_top_row_last_cleanup(const struct mt_stats_file *file)
{
	struct mt_top_cleanup last = {0};

	for (uint64_t back = 0; back < MT_CLEANUPS_COUNT && back < file->head.cleanups_count;
	     back++) {
		const struct mt_stats_cleanup *record =
			mt_stats_file_cleanup(file, file->head.cleanups_count - back);

		if (!record || record->merged == 1)
			continue;
		last = (struct mt_top_cleanup){.time_ns = record->time_ns,
					       .before_bytes = record->rss_before_bytes,
					       .after_bytes = record->rss_after_bytes,
					       .reason = record->reason,
					       .level = record->level};
		break;
	}
	return last;
}

double mt_top_sums_fragmented_percent(const struct mt_process_tree_sums *sums)
{
	return sums->resident_bytes
		       ? 100.0 * (double)sums->fragmented_bytes / (double)sums->resident_bytes
		       : -1;
}

/* ---- columns ---- */

#define BYTES_CELLS         5 /* of mt_short_bytes */
#define TREND_MAX           32
#define PARTS_MAX           24
#define HIGH_BYTES          ((uint64_t)64 << 20)
#define HIGH_PCT            25
#define FRAGMENTED_HIGH_PCT 30.0

static const struct mt_top_column_info columns[MT_COLUMNS_COUNT] = {
#define X(id, name, heading, width, rank, descends, help)                                          \
	{name, heading, MT_TOP_NONE, 0, width, rank, descends, help},
#define ROW(name, cell, sort, rank, heading, help)                                                 \
	{sort,                                                                                     \
	 heading,                                                                                  \
	 offsetof(struct mt_process_tree_sums, name),                                              \
	 MT_SUM_##cell,                                                                            \
	 sizeof(heading) - 1 > BYTES_CELLS ? sizeof(heading) - 1 : BYTES_CELLS,                    \
	 rank,                                                                                     \
	 true,                                                                                     \
	 help},
#define SUM(name, key, from, tree, cell, ps, top, ...)                                             \
	MT_TOP_SUM_##top(ROW, name, cell, __VA_ARGS__)
#define PART(part, ...) SUM(parts.bytes[MT_PART_##part], __VA_ARGS__)
	MT_TOP_FIRST_COLUMNS(X) MT_TREE_FIGURES(SUM, PART) MT_TOP_LAST_COLUMNS(X)
#undef PART
#undef SUM
#undef ROW
#undef X
};

const struct mt_top_column_info *mt_top_column(enum mt_top_column column)
{
	return &columns[column];
}

enum mt_top_column mt_top_column_find(const char *name)
{
	size_t i = 0;

	while (i < MT_COLUMNS_COUNT && strcmp(columns[i].name, name) != 0)
		i++;
	return (enum mt_top_column)i;
}

/* ---- order ---- */

/* The growth of RSS since the oldest known point. */
static double growth(const struct mt_top_row *row)
{
	const struct mt_top_history *history = row->history;

	if (!history->count)
		return 0;
	return (double)row->own.rss_bytes - (double)history->points[history->first].rss_bytes;
}

/* The bytes of a column that shows a sum. */
static uint64_t bytes_of(enum mt_top_column column, const struct mt_process_tree_sums *sums)
{
	uint64_t bytes;

	memcpy(&bytes, (const char *)sums + columns[column].sum, sizeof(bytes));
	return bytes;
}

static double value_of(enum mt_top_column column, const struct mt_top_shown *of)
{
	const struct mt_top_cleanup *last = &of->row->last;

	if (columns[column].sum != MT_TOP_NONE)
		return (double)bytes_of(column, of->sums);
	switch (column) {
	case MT_COLUMN_PARTS:
		return (double)of->sums->rss_bytes;
	case MT_COLUMN_FRAG:
		return mt_top_sums_fragmented_percent(of->sums);
	case MT_COLUMN_FREED:
		return last->time_ns ? (double)last->before_bytes - (double)last->after_bytes
				     : -1e30;
	case MT_COLUMN_AGO:
		return (double)last->time_ns;
	case MT_COLUMN_BUDGET:
		return of->row->budget_used_pct;
	case MT_COLUMN_TREND:
		return growth(of->row);
	case MT_COLUMN_RANK:
		return *of->row->rank ? strtod(of->row->rank, NULL) : 1e30;
	default:
		return of->row->process.pid;
	}
}

static const char *reason_of(const struct mt_top_row *row)
{
	/* sorts after all words */
	return row->last.time_ns ? mt_stats_word_reason(row->last.reason) : "~";
}

int mt_top_column_compare(enum mt_top_column column, const struct mt_top_shown *a,
			  const struct mt_top_shown *b)
{
	double left = value_of(column, a), right = value_of(column, b);
	int order;

	if (column == MT_COLUMN_COMMAND)
		order = strcmp(a->row->title, b->row->title);
	else if (column == MT_COLUMN_REASON)
		order = strcmp(reason_of(a->row), reason_of(b->row));
	else
		order = (left > right) - (left < right);
	if (columns[column].descends)
		order = -order;
	return order ? order
		     : (a->row->process.pid > b->row->process.pid) -
			       (a->row->process.pid < b->row->process.pid);
}

/* ---- layout ---- */

static int width_of(const struct mt_top_layout *layout)
{
	int width = 0;

	for (size_t i = 0; i < MT_COLUMNS_COUNT; i++)
		width += layout->width[i] ? layout->width[i] + 1 : 0;
	return width - 1;
}

/* Drops all columns of the highest rank: the bytes of a cleanup without its time say little. */
static bool drop_one_rank(struct mt_top_layout *layout)
{
	int highest = 0;

	for (size_t i = 0; i < MT_COLUMNS_COUNT; i++)
		if (layout->width[i] && columns[i].rank > highest)
			highest = columns[i].rank;
	for (size_t i = 0; i < MT_COLUMNS_COUNT && highest; i++)
		if (columns[i].rank == highest)
			layout->width[i] = 0;
	return highest > 0;
}

static void widen(struct mt_top_layout *layout, enum mt_top_column column, int by, int most)
{
	int room = most - columns[column].width;

	if (layout->width[column])
		layout->width[column] += by < room ? by : room;
}

void mt_top_layout_make(struct mt_top_optional optional, int room, struct mt_top_layout *out)
{
	int column = 0, spare;

	for (size_t i = 0; i < MT_COLUMNS_COUNT; i++)
		out->width[i] =
			(i == MT_COLUMN_RANK ? optional.ranks
					     : optional.gpu || columns[i].needs != MT_SUM_gpu)
				? columns[i].width
				: 0;
	while (width_of(out) > room && drop_one_rank(out))
		continue;
	spare = room > width_of(out) ? room - width_of(out) : 0;
	/* A third goes to the chart, a quarter to the bar, the rest to the command. */
	widen(out, MT_COLUMN_TREND, spare / 3, TREND_MAX);
	widen(out, MT_COLUMN_PARTS, spare / 4, PARTS_MAX);
	for (size_t i = 0; i < MT_COLUMNS_COUNT; i++) {
		out->start[i] = column;
		column += out->width[i] ? out->width[i] + 1 : 0;
	}
	if (room > out->start[MT_COLUMN_COMMAND])
		out->width[MT_COLUMN_COMMAND] = room - out->start[MT_COLUMN_COMMAND];
}

/* ---- cells ---- */

/* WARN if the free bytes are worth a cleanup. */
static enum mt_cell_style free_style(uint64_t free_bytes, uint64_t of_bytes)
{
	return free_bytes >= HIGH_BYTES && free_bytes / HIGH_PCT >= of_bytes / 100 ? MT_STYLE_WARN
										   : MT_STYLE_PLAIN;
}

static struct mt_top_cell_text bytes_cell(enum mt_top_column column,
					  const struct mt_process_tree_sums *sums)
{
	uint64_t bytes = bytes_of(column, sums);
	struct mt_top_cell_text cell = {mt_short_bytes(bytes), MT_STYLE_PLAIN};

	if (column == MT_COLUMN_rss_bytes && bytes >= (uint64_t)1 << 30)
		cell.style = MT_STYLE_BOLD;
	else if (column == MT_COLUMN_REUSABLE)
		cell.style = free_style(bytes, sums->rss_bytes);
	else if (column == MT_COLUMN_gpu_idle_bytes)
		cell.style = free_style(bytes, sums->gpu_reserved_bytes);
	return cell;
}

static struct mt_top_cell_text fragmented_cell(const struct mt_process_tree_sums *sums)
{
	double percent = mt_top_sums_fragmented_percent(sums);

	return (struct mt_top_cell_text){
		percent < 0 ? mt_text_format("-") : mt_short_percent(percent),
		percent >= FRAGMENTED_HIGH_PCT ? MT_STYLE_WARN : MT_STYLE_PLAIN};
}

static struct mt_top_cell_text cleanup_cell(enum mt_top_column column, const struct mt_top_row *row,
					    uint64_t now_ns)
{
	struct mt_top_cell_text cell = {mt_text_format("-"), MT_STYLE_DIM};
	const struct mt_top_cleanup *last = &row->last;

	if (!last->time_ns)
		return cell;
	cell.style = MT_STYLE_PLAIN;
	if (column == MT_COLUMN_FREED) {
		cell.text = mt_short_change(last->before_bytes, last->after_bytes);
		cell.style =
			last->after_bytes < last->before_bytes ? MT_STYLE_GOOD : MT_STYLE_PLAIN;
	} else if (column == MT_COLUMN_AGO) {
		cell.text = mt_short_ago(now_ns, last->time_ns);
	} else {
		cell.text = mt_text_format("%s", mt_stats_word_reason(last->reason));
	}
	return cell;
}

static struct mt_top_cell_text budget_cell(const struct mt_top_row *row)
{
	struct mt_top_cell_text cell = {.style = MT_STYLE_PLAIN};

	cell.text = mt_short_percent(row->budget_used_pct);
	if (row->budget_pct)
		snprintf(cell.text.text, sizeof(cell.text.text), "%.16s/%" PRIu64,
			 mt_short_percent(row->budget_used_pct).text, row->budget_pct);
	if (row->budget_pct && row->budget_used_pct > (double)row->budget_pct)
		cell.style = MT_STYLE_BAD;
	return cell;
}

static struct mt_top_cell_text pid_cell(const struct mt_top_row *row)
{
	struct mt_top_cell_text cell = {
		.style = row->pressure_level >= MT_PRESSURE_CRITICAL ? MT_STYLE_BAD
			 : row->pressure_level == MT_PRESSURE_WARN   ? MT_STYLE_WARN
								     : MT_STYLE_PLAIN};

	snprintf(cell.text.text, sizeof(cell.text.text), "%d", (int)row->process.pid);
	return cell;
}

struct mt_top_cell_text mt_top_column_cell(enum mt_top_column column,
					   const struct mt_top_shown *shown, uint64_t now_ns)
{
	const struct mt_top_cell_text unknown = {mt_text_format("-"), MT_STYLE_DIM};
	const struct mt_top_row *row = shown->row;
	bool is_awake = row->state == MT_PROCESS_AWAKE;
	bool has_heap = shown->sums->parts.is_known;
	bool has_gpu = row->uses_cuda || shown->sums->gpu_reserved_bytes;
	unsigned has = MT_SUM_any | (has_heap ? MT_SUM_heap : 0) | (has_gpu ? MT_SUM_gpu : 0) |
		       (is_awake || has_heap ? MT_SUM_awake : 0);

	if (columns[column].sum != MT_TOP_NONE)
		return columns[column].needs & has ? bytes_cell(column, shown->sums) : unknown;
	switch (column) {
	case MT_COLUMN_PID:
		return pid_cell(row);
	case MT_COLUMN_RANK:
		return (struct mt_top_cell_text){mt_text_format("%s", *row->rank ? row->rank : "-"),
						 MT_STYLE_PLAIN};
	case MT_COLUMN_FRAG:
		return has_heap ? fragmented_cell(shown->sums) : unknown;
	case MT_COLUMN_REASON:
		if (is_awake)
			return cleanup_cell(column, row, now_ns);
		return (struct mt_top_cell_text){
			mt_text_format("%s", mt_process_state_word(row->state)),
			row->state >= MT_PROCESS_REFUSED ? MT_STYLE_BAD : MT_STYLE_DIM};
	case MT_COLUMN_FREED:
	case MT_COLUMN_AGO:
		return cleanup_cell(column, row, now_ns);
	case MT_COLUMN_BUDGET:
		return is_awake ? budget_cell(row) : unknown;
	default:
		return (struct mt_top_cell_text){mt_text_format("%s", ""), MT_STYLE_PLAIN};
	}
}
