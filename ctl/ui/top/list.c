/* ctl/ui/top/list.c -- see list.h. */
#include "ctl/ui/top/list.h"

#include <stdio.h>
#include <string.h>

#include "ctl/ui/top/sparkline.h"
#include "sys/saturating.h"

#define DEPTH_MAX  12 /* deeper processes are indented no further */
#define HEADER_MAX 12 /* lines of --once above the list */

/* ---- heading ---- */

static void draw_heading(struct mt_top_canvas *canvas, const struct mt_top_model *model,
			 const struct mt_top_layout *layout, int row)
{
	mt_top_paint_row(canvas, row, MT_STYLE_HEADING);
	for (size_t i = 0; i < MT_COLUMNS_COUNT; i++) {
		const struct mt_top_column_info *column = mt_top_column((enum mt_top_column)i);
		struct mt_top_at at = {row, layout->start[i], layout->start[i] + layout->width[i]};
		enum mt_top_style style =
			model->sort == (enum mt_top_column)i ? MT_STYLE_SORTED : MT_STYLE_HEADING;

		if (!layout->width[i])
			continue;
		if (i == MT_COLUMN_TREND || i == MT_COLUMN_COMMAND || i == MT_COLUMN_REASON ||
		    i == MT_COLUMN_PARTS)
			mt_top_put(canvas, at, style, column->heading);
		else
			mt_top_put_right(canvas, at, style, column->heading);
	}
}

/* ---- one line ---- */

/* The script or program in bold, then its arguments. */
static void draw_command(struct mt_top_canvas *canvas, struct mt_top_at at, enum mt_top_style style,
			 const char *title)
{
	int end = at.column + (int)strcspn(title, " ");
	const struct mt_top_at name = {at.row, at.column, end < at.end ? end : at.end};

	mt_top_put(canvas, at, style, title);
	if (style == MT_STYLE_PLAIN)
		mt_top_put(canvas, name, MT_STYLE_BOLD, title);
}

static int put_branch(struct mt_top_canvas *canvas, struct mt_top_at at, const wchar_t *unicode,
		      const wchar_t *ascii)
{
	for (const wchar_t *next = canvas->unicode ? unicode : ascii; *next; next++)
		at.column = mt_top_put_glyph(canvas, at, MT_STYLE_DIM, *next);
	return at.column;
}

static int draw_tree(struct mt_top_canvas *canvas, struct mt_top_at at,
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
	struct mt_top_canvas *canvas;
	const struct mt_top_frame *frame;
	struct mt_top_layout layout;
	uint64_t most_bytes; /* the largest RSS of a line, which fills a bar */
};

static struct mt_top_at place_of(const struct drawing *drawing, int row, enum mt_top_column column)
{
	int start = drawing->layout.start[column];

	return (struct mt_top_at){row, start, start + drawing->layout.width[column]};
}

static void draw_cells(const struct drawing *drawing, int at_row, const struct mt_top_line *line,
		       enum mt_top_style style)
{
	const struct mt_top_shown shown = {&drawing->frame->model->rows[line->row], &line->sums};

	for (size_t i = 0; i < MT_COLUMN_TREND; i++) {
		struct mt_top_cell_text cell =
			mt_top_column_cell((enum mt_top_column)i, &shown, drawing->frame->now_ns);
		struct mt_top_at at = place_of(drawing, at_row, (enum mt_top_column)i);

		if (cell.style == MT_STYLE_PLAIN)
			cell.style = style;
		if (drawing->layout.width[i] && i == MT_COLUMN_REASON)
			mt_top_put(drawing->canvas, at, cell.style, cell.text.text);
		else if (drawing->layout.width[i])
			mt_top_put_right(drawing->canvas, at, cell.style, cell.text.text);
	}
}

static void draw_line(const struct drawing *drawing, int at_row, const struct mt_top_line *line)
{
	const struct mt_top_row *row = &drawing->frame->model->rows[line->row];
	enum mt_top_style style =
		line->is_context || row->state == MT_PROCESS_ASLEEP ? MT_STYLE_DIM : MT_STYLE_PLAIN;
	struct mt_top_at at = place_of(drawing, at_row, MT_COLUMN_COMMAND);
	char folded[32];

	draw_cells(drawing, at_row, line, style);
	if (drawing->layout.width[MT_COLUMN_PARTS] && row->state == MT_PROCESS_AWAKE)
		mt_top_draw_parts(drawing->canvas, place_of(drawing, at_row, MT_COLUMN_PARTS),
				  &line->sums.parts, drawing->most_bytes);
	if (drawing->layout.width[MT_COLUMN_TREND])
		mt_top_draw_trend(drawing->canvas, place_of(drawing, at_row, MT_COLUMN_TREND),
				  row->history, drawing->frame->now_ns);
	at.column = draw_tree(drawing->canvas, at, line);
	if (line->folded_count) {
		snprintf(folded, sizeof(folded), "[+%zu] ", line->folded_count);
		at.column = mt_top_put(drawing->canvas, at, MT_STYLE_KEY, folded);
	}
	draw_command(drawing->canvas, at, style, row->title);
}

/* ---- the list ---- */

static void draw_empty(struct mt_top_canvas *canvas, const struct mt_top_model *model, int row)
{
	const char *text =
		*model->filter
			? "no process matches the filter (/ changes it, Esc clears it)"
			: "no process carries the shim; `mtctl run -- program...` starts one";

	mt_top_put(canvas, (struct mt_top_at){row, 1, 0}, MT_STYLE_DIM, text);
}

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

	mt_top_layout_make(model->kinds, drawing->canvas->columns, &drawing->layout);
	for (size_t i = 0; i < model->lines_count; i++)
		drawing->most_bytes =
			mt_max_u64(drawing->most_bytes, model->lines[i].sums.rss_bytes);
	draw_heading(drawing->canvas, model, &drawing->layout, area.row);
	if (!model->lines_count)
		draw_empty(drawing->canvas, model, area.row + 1);
	for (int row = area.row + 1; row < area.end && first < model->lines_count; row++)
		draw_line(drawing, row, &model->lines[first++]);
}

void mt_top_draw_list(struct mt_top_canvas *canvas, const struct mt_top_frame *frame,
		      struct mt_top_area area, size_t *first)
{
	struct drawing drawing = {.canvas = canvas, .frame = frame};
	int height = area.end - area.row - 1;

	if (height < 1)
		return;
	scroll(frame->model, (size_t)height, first);
	draw_lines(&drawing, area, *first);
	if (frame->model->lines_count)
		mt_top_paint_row(canvas, area.row + 1 + (int)(frame->model->selected - *first),
				 MT_STYLE_SELECTED);
}

void mt_top_draw_once(struct mt_top_canvas *canvas, const struct mt_top_frame *frame, int columns)
{
	struct drawing drawing = {.canvas = canvas, .frame = frame};
	struct mt_top_area area = {.end = HEADER_MAX + 1 + (int)frame->model->lines_count + 1};

	mt_top_canvas_start(canvas, columns, area.end);
	area.row = mt_top_draw_header(canvas, frame, HEADER_MAX);
	draw_lines(&drawing, area, 0);
}
