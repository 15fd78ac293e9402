#include "ctl/ui/top/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/text.h"
#include "ctl/process/read_file.h"
#include "sys/saturating.h"

/* ---- header ---- */

#define METERS_MAX (3 + MT_DEVICES_COUNT)
/* from this many columns on, two meters stand side by side */
#define TWO_METERS 60

struct meter {
	char label[8], text[40];
	struct mt_top_part parts[MT_PARTS_COUNT + 2];
	uint64_t total_bytes;
};

/* ---- the title ---- */

static void draw_title(struct mt_cells *canvas, const struct mt_top_frame *frame)
{
	const struct mt_top_model *model = frame->model;
	char left[160], right[96], sort[40];
	size_t used;

	used = (size_t)snprintf(left, sizeof(left), " mtctl top  %s",
				mt_text_counted(model->rows_count, "process", "processes").text);
	if (model->asleep_count)
		used += (size_t)snprintf(left + used, sizeof(left) - used, ", %zu asleep",
					 model->asleep_count);
	used += (size_t)snprintf(left + used, sizeof(left) - used, ", %.8s returned",
				 mt_short_bytes(model->total.purged_bytes).text);
	if (*model->filter)
		snprintf(left + used, sizeof(left) - used, ", /%s: %zu", model->filter,
			 model->matching_count);
	snprintf(sort, sizeof(sort), "%s by %s%s", model->is_flat ? "flat" : "tree",
		 mt_top_column(model->sort)->name, model->is_reversed ? " reversed" : "");
	if (frame->is_paused)
		snprintf(right, sizeof(right), "%s  PAUSED  %.8s ", sort,
			 mt_text_clock(frame->now_ns).text);
	else
		snprintf(right, sizeof(right), "%s  every %.1f s  %.8s ", sort,
			 (double)frame->interval_ms / 1000, mt_text_clock(frame->now_ns).text);
	mt_cells_paint_row(canvas, 0, MT_STYLE_TITLE);
	/* Without the interval, or only the clock, if there is no room for all of it. */
	if ((int)(strlen(left) + strlen(right)) >= canvas->columns)
		snprintf(right, sizeof(right), "%s  %s%.8s ", sort,
			 frame->is_paused ? "PAUSED  " : "", mt_text_clock(frame->now_ns).text);
	if ((int)(strlen(left) + strlen(right)) >= canvas->columns)
		snprintf(right, sizeof(right), "%s%.8s ", frame->is_paused ? "PAUSED  " : "",
			 mt_text_clock(frame->now_ns).text);
	if ((int)(strlen(left) + strlen(right)) < canvas->columns)
		mt_cells_put_right(canvas, (struct mt_cell_place){0, 0, 0}, MT_STYLE_TITLE, right);
	mt_cells_put(canvas, (struct mt_cell_place){0, 0, 0}, MT_STYLE_TITLE, left);
}

static void set_text(struct meter *meter, uint64_t used_bytes)
{
	snprintf(meter->text, sizeof(meter->text), "%.8s/%.8s", mt_short_bytes(used_bytes).text,
		 mt_short_bytes(meter->total_bytes).text);
}

/* Memory in use on the machine, divided into the parts of shimmed processes, and the rest. Shared
 * pages count in each process, so that the sum may exceed the use: the bar ends there. */
static void fill_memory(struct meter *meter, const struct mt_top_frame *frame)
{
	const struct mt_memory_parts *parts = &frame->model->total.parts;
	uint64_t used = frame->machine->used_bytes, room = used;

	snprintf(meter->label, sizeof(meter->label), "Mem");
	meter->total_bytes = frame->machine->total_bytes;
	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		meter->parts[i] = (struct mt_top_part){mt_min_u64(parts->bytes[i], room),
						       (enum mt_cell_style)(MT_STYLE_LIVE + i)};
		room -= meter->parts[i].bytes;
	}
	meter->parts[MT_PARTS_COUNT] = (struct mt_top_part){room, MT_STYLE_REST};
	set_text(meter, used);
}

static void fill_plain(struct meter *meter, const char *label, uint64_t used, uint64_t total)
{
	double percent = total ? 100.0 * (double)used / (double)total : 0;

	snprintf(meter->label, sizeof(meter->label), "%s", label);
	meter->total_bytes = total;
	meter->parts[0] = (struct mt_top_part){used, percent >= 95   ? MT_STYLE_BAD
						     : percent >= 85 ? MT_STYLE_WARN
								     : MT_STYLE_GOOD};
	set_text(meter, used);
}

static size_t collect(struct meter *meters, const struct mt_top_frame *frame)
{
	const struct mt_top_machine *machine = frame->machine;
	size_t count = 0;
	char label[8];

	/* parts end with MT_STYLE_PLAIN, which is 0 */
	memset(meters, 0, METERS_MAX * sizeof(*meters));
	fill_memory(&meters[count++], frame);
	if (machine->has_limit)
		fill_plain(&meters[count++], "Lim", machine->limit.used_bytes,
			   machine->limit.limit_bytes);
	if (machine->swap_total_bytes)
		fill_plain(&meters[count++], "Swp", machine->swap_used_bytes,
			   machine->swap_total_bytes);
	for (size_t i = 0; i < frame->gpus->count; i++) {
		snprintf(label, sizeof(label), "GPU%zu", i % 100);
		fill_plain(&meters[count++], frame->gpus->count > 1 ? label : "GPU",
			   frame->gpus->list[i].used_bytes, frame->gpus->list[i].total_bytes);
	}
	return count;
}

/* Draws up to `most` lines, two meters side by side if there is room. */
static int draw_meters(struct mt_cells *canvas, const struct mt_top_frame *frame, int row, int most)
{
	struct meter meters[METERS_MAX];
	size_t count = collect(meters, frame),
	       across = canvas->columns >= TWO_METERS && count > 1 ? 2 : 1;
	int width = canvas->columns / (int)across, lines = 0;

	for (size_t i = 0; i < count && (int)(i / across) < most; i++) {
		int left = (int)(i % across) * width;
		const struct mt_top_bar bar = {meters[i].parts, meters[i].total_bytes,
					       meters[i].text};
		struct mt_cell_place at = {row + (int)(i / across), left + 1, left + width - 1};

		at.column = mt_cells_put(canvas, at, MT_STYLE_LABEL, meters[i].label);
		mt_top_draw_bar(canvas, at, &bar);
		lines = (int)(i / across) + 1;
	}
	return lines;
}

/* ---- sums ---- */

int mt_top_put_part(struct mt_cells *canvas, struct mt_cell_place at,
		    const struct mt_process_tree_sums *sums, enum mt_memory_part part)
{
	at.column = mt_cells_put_glyph(canvas, at, (enum mt_cell_style)(MT_STYLE_LIVE + (int)part),
				       mt_memory_part_cell(canvas, part));
	return mt_cells_put_figure(canvas, at, mt_memory_part_word(part),
				   sums->parts.is_known || part >= MT_PART_FILES
					   ? mt_short_bytes(sums->parts.bytes[part]).text
					   : "-");
}

static int put_gpu_sums(struct mt_cells *canvas, struct mt_cell_place at,
			const struct mt_process_tree_sums *sums)
{
	char text[80];

	snprintf(text, sizeof(text), "%.8s/%.8s idle %.8s",
		 mt_short_bytes(sums->gpu_allocated_bytes).text,
		 mt_short_bytes(sums->gpu_reserved_bytes).text,
		 mt_short_bytes(sums->gpu_idle_bytes).text);
	return mt_cells_put_figure(canvas, at, "GPU", text);
}

/* The highest level of any process, and how many have it: each has limits of its own. */
struct pressure {
	uint64_t level;
	size_t count;
};

static struct pressure highest_pressure(const struct mt_top_model *model)
{
	struct pressure highest = {MT_PRESSURE_NONE, 0};

	for (size_t i = 0; i < model->rows_count; i++) {
		uint64_t level = model->rows[i].pressure_level;

		if (level > highest.level)
			highest = (struct pressure){level, 0};
		highest.count += level == highest.level;
	}
	return highest;
}

/* A figure that does not fit is left out whole. Returns the column after it. */
static int put_last(struct mt_cells *canvas, struct mt_cell_place at, const char *label,
		    const char *value)
{
	int length = (int)(strlen(label) + 1 + strlen(value));

	return at.column + length <= canvas->columns ? mt_cells_put_figure(canvas, at, label, value)
						     : canvas->columns;
}

static int put_pressure(struct mt_cells *canvas, struct mt_cell_place at,
			const struct mt_top_model *model)
{
	static const enum mt_cell_style styles[MT_PRESSURE_LEVEL_COUNT] = {
		MT_STYLE_GOOD, MT_STYLE_WARN, MT_STYLE_BAD};
	struct pressure highest = highest_pressure(model);
	char text[80];

	snprintf(text, sizeof(text), "%.20s", mt_stats_word_pressure_level(highest.level));
	if (highest.level != MT_PRESSURE_NONE)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " in %zu of %zu",
			 highest.count, model->rows_count);
	if (at.column + (int)(strlen("pressure ") + strlen(text)) > canvas->columns)
		return canvas->columns;
	at.column = mt_cells_put(canvas, at, MT_STYLE_LABEL, "pressure ");
	at.column = mt_cells_put(canvas, at,
				 styles[mt_min_u64(highest.level, MT_PRESSURE_CRITICAL)], text);
	return at.column + 2;
}

/* Pressure is behind the parts, but before them if there is any. */
static void draw_sums(struct mt_cells *canvas, const struct mt_top_frame *frame, int row)
{
	const struct mt_process_tree_sums *sums = &frame->model->total;
	bool has_pressure = highest_pressure(frame->model).level != MT_PRESSURE_NONE;
	double fragmented = mt_top_sums_fragmented_percent(sums);
	struct mt_cell_place at = {row, 1, 0};
	char text[40];

	at.column = mt_cells_put_figure(canvas, at, "RSS", mt_short_bytes(sums->rss_bytes).text);
	if (has_pressure)
		at.column = put_pressure(canvas, at, frame->model);
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		at.column = mt_top_put_part(canvas, at, sums, (enum mt_memory_part)i);
	if (frame->model->optional.gpu)
		at.column = put_gpu_sums(canvas, at, sums);
	if (!has_pressure)
		at.column = put_pressure(canvas, at, frame->model);
	if (frame->machine->has_stalls) {
		snprintf(text, sizeof(text), "%.8s%%",
			 mt_short_percent(frame->machine->stall_pct).text);
		at.column = put_last(canvas, at, "stalled", text);
	}
	snprintf(text, sizeof(text), "%.8s%%",
		 mt_short_percent(fragmented < 0 ? 0 : fragmented).text);
	put_last(canvas, at, "frag", text);
}

int mt_top_draw_header(struct mt_cells *canvas, const struct mt_top_frame *frame, int most)
{
	int lines = 1;

	draw_title(canvas, frame);
	if (most > lines)
		lines += draw_meters(canvas, frame, lines, most > 4 ? most - 2 : 1);
	if (most > lines)
		draw_sums(canvas, frame, lines++);
	return lines;
}

#define DEPTH_MAX  12 /* deeper processes are indented no further */
#define HEADER_MAX 12 /* lines of --once above the list */

/* ---- heading ---- */

static void draw_heading(struct mt_cells *canvas, const struct mt_top_model *model,
			 const struct mt_top_layout *layout, int row)
{
	mt_cells_paint_row(canvas, row, MT_STYLE_HEADING);
	for (size_t i = 0; i < MT_COLUMNS_COUNT; i++) {
		const struct mt_top_column_info *column = mt_top_column((enum mt_top_column)i);
		struct mt_cell_place at = {row, layout->start[i],
					   layout->start[i] + layout->width[i]};
		enum mt_cell_style style =
			model->sort == (enum mt_top_column)i ? MT_STYLE_SORTED : MT_STYLE_HEADING;

		if (!layout->width[i])
			continue;
		if (i == MT_COLUMN_TREND || i == MT_COLUMN_COMMAND || i == MT_COLUMN_REASON ||
		    i == MT_COLUMN_PARTS)
			mt_cells_put(canvas, at, style, column->heading);
		else
			mt_cells_put_right(canvas, at, style, column->heading);
	}
}

/* ---- one line ---- */

/* The script or program in bold, then its arguments. */
static void draw_command(struct mt_cells *canvas, struct mt_cell_place at, enum mt_cell_style style,
			 const char *title)
{
	int end = at.column + (int)strcspn(title, " ");
	const struct mt_cell_place name = {at.row, at.column, end < at.end ? end : at.end};

	mt_cells_put(canvas, at, style, title);
	if (style == MT_STYLE_PLAIN)
		mt_cells_put(canvas, name, MT_STYLE_BOLD, title);
}

static int put_branch(struct mt_cells *canvas, struct mt_cell_place at, const wchar_t *unicode,
		      const wchar_t *ascii)
{
	for (const wchar_t *next = canvas->unicode ? unicode : ascii; *next; next++)
		at.column = mt_cells_put_glyph(canvas, at, MT_STYLE_DIM, *next);
	return at.column;
}

static int draw_tree(struct mt_cells *canvas, struct mt_cell_place at,
		     const struct mt_top_line *line)
{
	int depth = line->depth < DEPTH_MAX ? line->depth : DEPTH_MAX;

	for (int level = 1; level < depth; level++) {
		if (line->open_depths >> level & 1)
			at.column = put_branch(canvas, at, L"\u2502 ", L"| ");
		else
			at.column += 2;
	}
	if (depth && line->is_last)
		at.column = put_branch(canvas, at, L"\u2514\u2500", L"`-");
	else if (depth)
		at.column = put_branch(canvas, at, L"\u251c\u2500", L"|-");
	return at.column < at.end ? at.column : at.end;
}

struct drawing {
	struct mt_cells *canvas;
	const struct mt_top_frame *frame;
	struct mt_top_layout layout;
	uint64_t most_bytes; /* the largest RSS of a line, which fills a bar */
};

static struct mt_cell_place cells_of(const struct drawing *drawing, int row,
				     enum mt_top_column column)
{
	int start = drawing->layout.start[column];

	return (struct mt_cell_place){row, start, start + drawing->layout.width[column]};
}

static void draw_cells(const struct drawing *drawing, int at_row, const struct mt_top_line *line,
		       enum mt_cell_style style)
{
	const struct mt_top_shown shown = {&drawing->frame->model->rows[line->row], &line->sums};

	for (size_t i = 0; i < MT_COLUMN_PARTS; i++) {
		struct mt_top_cell_text cell =
			mt_top_column_cell((enum mt_top_column)i, &shown, drawing->frame->now_ns);
		struct mt_cell_place at = cells_of(drawing, at_row, (enum mt_top_column)i);

		if (cell.style == MT_STYLE_PLAIN)
			cell.style = style;
		if (drawing->layout.width[i] && i == MT_COLUMN_REASON)
			mt_cells_put(drawing->canvas, at, cell.style, cell.text.text);
		else if (drawing->layout.width[i])
			mt_cells_put_right(drawing->canvas, at, cell.style, cell.text.text);
	}
}

static void draw_line(const struct drawing *drawing, int at_row, const struct mt_top_line *line)
{
	const struct mt_top_row *row = &drawing->frame->model->rows[line->row];
	enum mt_cell_style style =
		line->is_context || row->state == MT_PROCESS_ASLEEP ? MT_STYLE_DIM : MT_STYLE_PLAIN;
	struct mt_cell_place at = cells_of(drawing, at_row, MT_COLUMN_COMMAND);
	char folded[32];

	draw_cells(drawing, at_row, line, style);
	if (drawing->layout.width[MT_COLUMN_PARTS] && row->state == MT_PROCESS_AWAKE)
		mt_memory_parts_draw(drawing->canvas, cells_of(drawing, at_row, MT_COLUMN_PARTS),
				     &line->sums.parts, drawing->most_bytes);
	if (drawing->layout.width[MT_COLUMN_TREND])
		mt_top_draw_trend(drawing->canvas, cells_of(drawing, at_row, MT_COLUMN_TREND),
				  row->history, drawing->frame->now_ns);
	at.column = draw_tree(drawing->canvas, at, line);
	if (line->folded_count) {
		snprintf(folded, sizeof(folded), "[+%zu] ", line->folded_count);
		at.column = mt_cells_put(drawing->canvas, at, MT_STYLE_KEY, folded);
	}
	draw_command(drawing->canvas, at, style, row->title);
}

/* ---- the list ---- */

static void scroll(const struct mt_top_model *model, size_t height, size_t *first)
{
	if (model->selected < *first)
		*first = model->selected;
	if (model->selected >= *first + height)
		*first = model->selected - height + 1;
	if (*first + height > model->lines_count)
		*first = model->lines_count > height ? model->lines_count - height : 0;
}

static void draw_lines(struct drawing *drawing, struct mt_top_area area, size_t first)
{
	const struct mt_top_model *model = drawing->frame->model;

	mt_top_layout_make(model->optional, drawing->canvas->columns, &drawing->layout);
	for (size_t i = 0; i < model->lines_count; i++)
		drawing->most_bytes =
			mt_max_u64(drawing->most_bytes, model->lines[i].sums.rss_bytes);
	draw_heading(drawing->canvas, model, &drawing->layout, area.row);
	if (!model->lines_count)
		mt_cells_put(drawing->canvas, (struct mt_cell_place){area.row + 1, 1, 0},
			     MT_STYLE_DIM,
			     *model->filter ? "no process matches the filter (/ changes it, Esc "
					      "clears it)"
					    : "no process carries the shim; `mtctl run -- "
					      "program...` starts one");
	for (int row = area.row + 1; row < area.end && first < model->lines_count; row++)
		draw_line(drawing, row, &model->lines[first++]);
}

void mt_top_draw_list(struct mt_cells *canvas, const struct mt_top_frame *frame,
		      struct mt_top_area area, size_t *first)
{
	struct drawing drawing = {.canvas = canvas, .frame = frame};
	int height = area.end - area.row - 1;

	if (height < 1)
		return;
	scroll(frame->model, (size_t)height, first);
	draw_lines(&drawing, area, *first);
	if (frame->model->lines_count)
		mt_cells_paint_row(canvas, area.row + 1 + (int)(frame->model->selected - *first),
				   MT_STYLE_SELECTED);
}

int mt_top_draw_once(struct mt_cells *canvas, const struct mt_top_frame *frame, int columns)
{
	struct drawing drawing = {.canvas = canvas, .frame = frame};
	int lines = frame->model->lines_count ? (int)frame->model->lines_count : 1;
	struct mt_top_area area = {.end = HEADER_MAX + 1 + lines};

	mt_cells_start(canvas, columns, area.end);
	area.row = mt_top_draw_header(canvas, frame, HEADER_MAX);
	draw_lines(&drawing, area, 0);
	return area.row + 1 + lines;
}

/* ---- machine ---- */

/* "some avg10=0.12 avg60=..." */
static bool read_stalls(const char *root, double *out_pct)
{
	char path[512], *text, *end;
	const char key[] = "some avg10=";
	const char *found;
	bool known = false;

	snprintf(path, sizeof(path), "%s/proc/pressure/memory", root);
	text = mt_read_file(path, NULL);
	found = text ? strstr(text, key) : NULL;
	if (found) {
		double value = strtod(found + strlen(key), &end);

		known = end != found + strlen(key) && value >= 0 && value <= 100;
		if (known)
			*out_pct = value;
	}
	free(text);
	return known;
}

void mt_top_machine_read(const char *root, struct mt_top_machine *out)
{
	uint64_t swap_free = mt_limit_meminfo(root, "SwapFree:");

	*out = (struct mt_top_machine){0};
	out->total_bytes = mt_limit_meminfo(root, "MemTotal:");
	out->used_bytes = mt_limit_machine_used(root);
	out->swap_total_bytes = mt_limit_meminfo(root, "SwapTotal:");
	out->swap_used_bytes =
		out->swap_total_bytes > swap_free ? out->swap_total_bytes - swap_free : 0;
	out->has_limit = mt_limit_find(root, 0, &out->limit) == MT_ERR_OK && out->limit.is_cgroup;
	out->has_stalls = read_stalls(root, &out->stall_pct);
}

static bool contains(const struct mt_top_gpus *gpus, const char *pci)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (strcmp(gpus->list[i].pci, pci) == 0)
			return true;
	return false;
}

void mt_top_gpus_add(struct mt_top_gpus *gpus, const struct mt_stats_device *devices, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct mt_stats_device *device = &devices[i];
		struct mt_top_gpu *gpu = &gpus->list[gpus->count];

		if (gpus->count == MT_DEVICES_COUNT || !device->total_bytes ||
		    !device->free_bytes || contains(gpus, device->pci))
			continue;
		snprintf(gpu->pci, sizeof(gpu->pci), "%s", device->pci);
		snprintf(gpu->name, sizeof(gpu->name), "%s", device->name);
		gpu->total_bytes = device->total_bytes;
		gpu->used_bytes = device->total_bytes > device->free_bytes
					  ? device->total_bytes - device->free_bytes
					  : 0;
		gpus->count++;
	}
}
