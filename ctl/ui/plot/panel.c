#include "ctl/ui/plot/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define LABELS_APART 8.0  /* pixels between labels of the axis of time */
#define TICK_ROOM    55.0 /* pixels for one label of the axis of bytes */
#define SHAPE_APART  90.0 /* pixels between the shapes on a line */

static struct mt_scale panel_time_scale(const struct mt_box *box, const struct mt_span *span)
{
	return (struct mt_scale){span->low, span->high, box->left, box->right};
}

static void draw_line(struct mt_canvas *canvas, struct mt_point from, struct mt_point to,
		      const struct mt_paint *paint)
{
	const struct mt_point ends[] = {from, to};

	mt_canvas_line(canvas, ends, 2, paint);
}

/* At the left of the box, and its lines across: from 0 to at least `high`, in about `wanted`
 * steps. */
static struct mt_scale draw_bytes(struct mt_canvas *canvas, const struct mt_box *box, double high,
				  size_t wanted)
{
	const struct mt_font label = {11, false, MT_RGB_TEXT, MT_ANCHOR_END};
	const struct mt_paint grid = {MT_RGB_GRID, 1, 1, MT_DASH_NONE},
			      frame = {MT_RGB_FRAME, 1, 1, MT_DASH_NONE};
	struct mt_ticks ticks;
	struct mt_scale scale;

	mt_ticks_bytes(high, wanted, &ticks);
	scale = (struct mt_scale){0, ticks.list[ticks.count - 1].at, box->bottom, box->top};
	for (size_t i = 0; i < ticks.count; i++) {
		double y = mt_scale_position(&scale, ticks.list[i].at);

		draw_line(canvas, (struct mt_point){box->left, y}, (struct mt_point){box->right, y},
			  i ? &grid : &frame);
		mt_canvas_text(canvas, (struct mt_point){box->left - 8, y + 4}, ticks.list[i].label,
			       &label);
	}
	return scale;
}

void mt_panel_draw_field(struct mt_canvas *canvas, struct mt_panel *panel)
{
	const struct mt_font title = {12, true, MT_RGB_TEXT, MT_ANCHOR_START};
	const struct mt_paint frame = {MT_RGB_FRAME, 1, 1, MT_DASH_NONE};
	const struct mt_box *box = &panel->box;
	double high = 0, wanted = fmin(fmax(floor((box->bottom - box->top) / TICK_ROOM), 2), 12);

	for (size_t i = 0; i < panel->curves_count; i++)
		high = fmax(high, mt_series_sum_up(&panel->curves[i].series).peak);
	mt_canvas_begin(canvas, "axis bytes", NULL);
	panel->bytes = draw_bytes(canvas, box, high * 1.02, (size_t)wanted);
	draw_line(canvas, (struct mt_point){box->left, box->top},
		  (struct mt_point){box->left, box->bottom}, &frame);
	mt_canvas_text(canvas, (struct mt_point){box->left, box->top - 7 - panel->below_title},
		       panel->title, &title);
	mt_canvas_end(canvas);
}

/* ---- lines ---- */

/* Buffers and scales for drawing curves. */
struct pen {
	struct mt_canvas *canvas;
	struct mt_scale x, y;
	size_t columns;
	struct mt_point *thinned;
	struct mt_point *points; /* twice as many: along the line, and back along the base */
};

static size_t scale_points(struct pen *pen, const struct mt_series *part, struct mt_point *out)
{
	size_t count = mt_series_thin(part, pen->x.low, pen->x.high, pen->columns, pen->thinned);

	for (size_t i = 0; i < count; i++)
		out[i] = (struct mt_point){mt_scale_position(&pen->x, pen->thinned[i].x),
					   mt_scale_position(&pen->y, pen->thinned[i].y)};
	return count;
}

static void reverse(struct mt_point *points, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		struct mt_point kept = points[i];

		points[i] = points[count - 1 - i];
		points[count - 1 - i] = kept;
	}
}

static void draw_area(struct pen *pen, const struct mt_curve *curve, const struct mt_series *base,
		      size_t count)
{
	const struct mt_paint fill = {curve->paint.rgb, curve->fill, 0, MT_DASH_NONE};
	size_t back = base->count ? scale_points(pen, base, pen->points + count) : 0;

	if (back) {
		reverse(pen->points + count, back);
	} else {
		pen->points[count] = (struct mt_point){pen->points[count - 1].x, pen->y.from};
		pen->points[count + 1] = (struct mt_point){pen->points[0].x, pen->y.from};
		back = 2;
	}
	mt_canvas_area(pen->canvas, pen->points, count + back, &fill);
}

/* Shapes on a line tell crossing lines apart. They begin at different positions. */
static void draw_shapes(struct pen *pen, const struct mt_curve *curve, size_t count)
{
	double next = pen->x.from + SHAPE_APART * (0.3 + 0.23 * (double)curve->shape.shape);

	for (size_t i = 1; i < count; i++)
		for (; next <= pen->points[i].x; next += SHAPE_APART) {
			const struct mt_point *a = &pen->points[i - 1], *b = &pen->points[i];
			double part = b->x > a->x ? (next - a->x) / (b->x - a->x) : 1;

			if (next >= a->x)
				mt_shape_draw(pen->canvas,
					      (struct mt_point){next, a->y + part * (b->y - a->y)},
					      &curve->shape);
		}
}

/* Draws a part without gaps. */
static void draw_part(struct pen *pen, const struct mt_curve *curve, size_t first, size_t count)
{
	const struct mt_series part = {curve->series.list + first, count};
	struct mt_series base = {0};
	size_t points;

	if (curve->base.count >= first + count)
		base = (struct mt_series){curve->base.list + first, count};
	points = scale_points(pen, &part, pen->points);
	if (points == 1) /* a single sample is a short line, to be visible */
		pen->points[points++] = (struct mt_point){pen->points[0].x + 2, pen->points[0].y};
	mt_canvas_line(pen->canvas, pen->points, points, &curve->paint);
	if (curve->shape.radius > 0)
		draw_shapes(pen, curve, points);
	if (curve->fill > 0)
		draw_area(pen, curve, &base, points);
}

static void draw_curve(struct pen *pen, const struct mt_curve *curve)
{
	const struct mt_point *list = curve->series.list;
	size_t count = curve->series.count, first = 0;

	mt_canvas_begin(pen->canvas, curve->name, NULL);
	while (first < count) {
		size_t end = first;

		while (end < count && !isnan(list[end].y))
			end++;
		if (end > first)
			draw_part(pen, curve, first, end - first);
		first = end + 1;
	}
	mt_canvas_end(pen->canvas);
}

void mt_panel_draw_curves(struct mt_canvas *canvas, struct mt_panel *panel,
			  const struct mt_span *span)
{
	struct pen pen = {.canvas = canvas,
			  .x = panel_time_scale(&panel->box, span),
			  .y = panel->bytes,
			  .columns = (size_t)(panel->box.right - panel->box.left)};
	size_t room = 4 * (pen.columns + 1) + 2;

	pen.thinned = mt_error_check_memory(calloc(room, sizeof(*pen.thinned)));
	pen.points = mt_error_check_memory(calloc(2 * room, sizeof(*pen.points)));
	for (size_t i = 0; i < panel->curves_count; i++) {
		mt_series_close_gaps(&panel->curves[i].series,
				     (span->high - span->low) / (double)pen.columns);
		if (panel->curves[i].base.count)
			mt_series_close_gaps(&panel->curves[i].base,
					     (span->high - span->low) / (double)pen.columns);
		draw_curve(&pen, &panel->curves[i]);
	}
	free(pen.thinned);
	free(pen.points);
}

void mt_panel_draw_time(struct mt_canvas *canvas, const struct mt_box *box, double y,
			const struct mt_span *span)
{
	const struct mt_font font = {11, false, MT_RGB_TEXT, MT_ANCHOR_MIDDLE};
	const struct mt_paint frame = {MT_RGB_FRAME, 1, 1, MT_DASH_NONE};
	struct mt_scale scale = panel_time_scale(box, span);
	struct mt_ticks ticks;
	double free_from = 0;

	if (span->as_clock)
		mt_ticks_clock(span->origin, span->low, span->high, &ticks);
	else
		mt_ticks_elapsed(span->low, span->high,
				 (size_t)fmax(3, fmin(12, (box->right - box->left) / 90)), &ticks);
	mt_canvas_begin(canvas, "axis time", NULL);
	draw_line(canvas, (struct mt_point){box->left, y}, (struct mt_point){box->right, y},
		  &frame);
	for (size_t i = 0; i < ticks.count; i++) {
		double x = mt_scale_position(&scale, ticks.list[i].at),
		       half = mt_canvas_text_width(canvas, ticks.list[i].label, &font) / 2;

		draw_line(canvas, (struct mt_point){x, y}, (struct mt_point){x, y + 4}, &frame);
		if (x - half < free_from)
			continue;
		mt_canvas_text(canvas, (struct mt_point){x, y + 17}, ticks.list[i].label, &font);
		free_from = x + half + LABELS_APART;
	}
	mt_canvas_end(canvas);
}

void mt_panel_free(struct mt_panel *panel)
{
	for (size_t i = 0; i < panel->curves_count; i++) {
		mt_series_free(&panel->curves[i].series);
		mt_series_free(&panel->curves[i].base);
	}
}

/* ---- marks ---- */

/* marks of a lane: beyond that, marks on the same pixel are left out */
#define MANY 2000u
/* with more cleanups than this, lines would hide the curves */
#define LINES_MAX   60u
#define FREED_MAX   8u   /* texts above the panel */
#define LANE        22.0 /* pixels */
#define PRESSED_MAX 256u
#define FREED_MIN   (UINT64_C(4) << 20)

static const struct mt_shape_style cleanup_shapes[MT_LEVEL_COUNT] = {
	{MT_SHAPE_CIRCLE, 3.5, MT_RGB_FRAME, true},
	{MT_SHAPE_TRIANGLE, 5, MT_RGB_RED, false},
	{MT_SHAPE_DIAMOND, 5.5, MT_RGB_BLACK, false}};
static const struct mt_shape_style round_shape = {MT_SHAPE_BAR, 7, MT_RGB_BLUE, false};
static const struct mt_paint pressure_inks[MT_PRESSURE_LEVEL_COUNT] = {
	[MT_PRESSURE_WARN] = {0xf0c000, 0.18, 0, MT_DASH_NONE},
	[MT_PRESSURE_CRITICAL] = {MT_RGB_RED, 0.25, 0, MT_DASH_NONE}};
static const double pressure_steps[MT_PRESSURE_LEVEL_COUNT] = {
	[MT_PRESSURE_WARN] = 14, [MT_PRESSURE_CRITICAL] = 6};

static double time_of(const struct mt_marks *marks, const struct mt_recording_mark *mark)
{
	return mark->time_ns >= marks->origin_ns
		       ? (double)(mark->time_ns - marks->origin_ns) / 1e9
		       : -(double)(marks->origin_ns - mark->time_ns) / 1e9;
}

/* The next visible mark of this kind from *at on; NULL: none. */
static const struct mt_recording_mark *next(const struct mt_marks *marks,
					    enum mt_recording_kind kind, size_t *at)
{
	while (*at < marks->recording->marks_count) {
		const struct mt_recording_mark *mark = &marks->recording->marks[(*at)++];
		double time = time_of(marks, mark);

		if (mark->kind == kind && (!marks->pid || mark->pid == marks->pid) &&
		    (kind == MT_RECORDING_PRESSURE ||
		     (time >= marks->span->low && time <= marks->span->high)))
			return mark;
	}
	return NULL;
}

static size_t count_marks(const struct mt_marks *marks, enum mt_recording_kind kind)
{
	size_t at = 0, count = 0;

	while (next(marks, kind, &at))
		count++;
	return count;
}

/* ---- behind the curves ---- */

static void draw_pressure_area(struct mt_canvas *canvas, const struct mt_box *box, uint32_t level)
{
	mt_canvas_begin(canvas, level == MT_PRESSURE_WARN ? "pressure warn" : "pressure critical",
			level == MT_PRESSURE_WARN ? "pressure: warn" : "pressure: critical");
	mt_hatch_draw(canvas, box, &pressure_inks[level], pressure_steps[level]);
	mt_canvas_end(canvas);
}

/* The last level of each process. Further processes are left out: they share the limit of the
 * container. */
struct pressures {
	struct {
		uint64_t pid;
		uint32_t level;
	} list[PRESSED_MAX];
	size_t count;
};

/* Notes a change, and returns the highest level of all processes. */
static uint32_t note_pressure(struct pressures *all, const struct mt_recording_mark *mark)
{
	uint32_t highest = MT_PRESSURE_NONE;
	size_t i = 0;

	while (i < all->count && all->list[i].pid != mark->pid)
		i++;
	if (i == all->count && i < PRESSED_MAX)
		all->list[all->count++].pid = mark->pid;
	if (i < all->count)
		all->list[i].level = mark->level;
	for (i = 0; i < all->count; i++)
		highest = all->list[i].level > highest ? all->list[i].level : highest;
	return highest;
}

/* Draws an area for each time span of one level. A level that is never lowered lasts to the end. */
static void draw_pressure(struct mt_canvas *canvas, const struct mt_marks *marks,
			  const struct mt_box *box)
{
	struct mt_scale scale = panel_time_scale(box, marks->span);
	struct mt_box shade = *box;
	struct pressures all = {.count = 0};
	const struct mt_recording_mark *mark;
	uint32_t level = MT_PRESSURE_NONE, now;
	size_t at = 0;
	double x;

	shade.right = box->left;
	do {
		mark = next(marks, MT_RECORDING_PRESSURE, &at);
		now = mark ? note_pressure(&all, mark) : (uint32_t)MT_PRESSURE_LEVEL_COUNT;
		if (now == level)
			continue;
		x = mark ? mt_scale_position(&scale, time_of(marks, mark)) : box->right;
		x = fmin(fmax(x, box->left), box->right);
		/* A shorter span than a pixel is still visible; several of them in one pixel are
		 * one. */
		shade.left = fmax(shade.left, shade.right);
		shade.right = fmax(x, shade.left + 1);
		if (level != MT_PRESSURE_NONE && x > box->left && x > shade.left)
			draw_pressure_area(canvas, &shade, level);
		shade.left = shade.right = x;
		level = now;
	} while (mark);
}

void mt_marks_draw_behind(struct mt_canvas *canvas, const struct mt_marks *marks,
			  const struct mt_box *box)
{
	const struct mt_paint paint = {0x999999, 1, 0.8, MT_DASH_DOTS};
	struct mt_scale scale = panel_time_scale(box, marks->span);
	const struct mt_recording_mark *mark;
	size_t at = 0;

	draw_pressure(canvas, marks, box);
	if (count_marks(marks, MT_RECORDING_CLEANUP) > LINES_MAX)
		return;
	mt_canvas_begin(canvas, "guides", NULL);
	while ((mark = next(marks, MT_RECORDING_CLEANUP, &at))) {
		double x = mt_scale_position(&scale, time_of(marks, mark));
		const struct mt_point ends[] = {{x, box->top}, {x, box->bottom}};

		if (mark->level >= MT_LEVEL_LIGHT || mark->freed_bytes >= FREED_MIN)
			mt_canvas_line(canvas, ends, 2, &paint);
	}
	mt_canvas_end(canvas);
}

/* ---- lanes ---- */

static void describe(const struct mt_recording_mark *mark, char *out, size_t out_bytes)
{
	if (mark->kind == MT_RECORDING_ROUND)
		snprintf(out, out_bytes, "round %" PRIu64, mark->number);
	else
		snprintf(out, out_bytes, "%s cleanup %" PRIu64 " (%s): %s%s%s",
			 mt_stats_word_level(mark->level), mark->number,
			 *mark->reason ? mark->reason : "?",
			 mt_text_change(mark->freed_bytes, 0).text,
			 mark->gpu_freed_bytes ? ", GPU " : "",
			 mark->gpu_freed_bytes ? mt_text_change(mark->gpu_freed_bytes, 0).text
					       : "");
}

static void draw_mark(struct mt_canvas *canvas, const struct mt_recording_mark *mark,
		      struct mt_point at)
{
	static const char *const names[MT_LEVEL_COUNT] = {
		"mark cleanup purge", "mark cleanup light", "mark cleanup heavy"};
	bool round = mark->kind == MT_RECORDING_ROUND;
	char text[320];

	describe(mark, text, sizeof(text));
	mt_canvas_begin(canvas, round ? "mark round" : names[mark->level], text);
	mt_shape_draw(canvas, at, round ? &round_shape : &cleanup_shapes[mark->level]);
	mt_canvas_end(canvas);
}

static void draw_round_number(struct mt_canvas *canvas, const struct mt_recording_mark *mark,
			      struct mt_point at, double *free_from)
{
	const struct mt_font font = {9.5, false, MT_RGB_SOFT, MT_ANCHOR_START};
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, mark->number);
	if (at.x < *free_from)
		return;
	mt_canvas_text(canvas, (struct mt_point){at.x + 4, at.y + 3.5}, text, &font);
	*free_from = at.x + mt_canvas_text_width(canvas, text, &font) + 14;
}

static void draw_lane(struct mt_canvas *canvas, const struct mt_marks *marks,
		      const struct mt_box *box, enum mt_recording_kind kind)
{
	const struct mt_font font = {11, false, MT_RGB_TEXT, MT_ANCHOR_END};
	bool crowded = count_marks(marks, kind) > MANY;
	struct mt_scale scale = panel_time_scale(box, marks->span);
	double y = (box->top + box->bottom) / 2, last = -INFINITY, free_from = -INFINITY;
	const struct mt_recording_mark *mark, *after;
	size_t at = 0, ahead;

	mt_canvas_text(canvas, (struct mt_point){box->left - 8, y + 4},
		       kind == MT_RECORDING_ROUND ? "rounds" : "cleanups", &font);
	while ((mark = next(marks, kind, &at))) {
		double x = mt_scale_position(&scale, time_of(marks, mark));

		if (crowded && x - last < 1)
			continue;
		last = x;
		draw_mark(canvas, mark, (struct mt_point){x, y});
		ahead = at;
		after = kind == MT_RECORDING_ROUND ? next(marks, kind, &ahead) : NULL;
		/* A number is drawn if it does not touch the next mark. */
		if (kind == MT_RECORDING_ROUND &&
		    (!after || mt_scale_position(&scale, time_of(marks, after)) - x > 26))
			draw_round_number(canvas, mark, (struct mt_point){x, y}, &free_from);
	}
}

double mt_marks_height(const struct mt_marks *marks)
{
	return LANE * ((count_marks(marks, MT_RECORDING_ROUND) > 0) +
		       (count_marks(marks, MT_RECORDING_CLEANUP) > 0));
}

void mt_marks_draw_lanes(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double y)
{
	struct mt_box lane = {box->left, y, box->right, y + LANE};

	mt_canvas_begin(canvas, "lanes", NULL);
	for (int kind = MT_RECORDING_ROUND; kind <= MT_RECORDING_CLEANUP; kind++)
		if (count_marks(marks, (enum mt_recording_kind)kind)) {
			draw_lane(canvas, marks, &lane, (enum mt_recording_kind)kind);
			lane.top += LANE;
			lane.bottom += LANE;
		}
	mt_canvas_end(canvas);
}

/* ---- freed bytes ---- */

static int compare_freed(const void *a, const void *b)
{
	const struct mt_recording_mark *left = *(const struct mt_recording_mark *const *)a,
				       *right = *(const struct mt_recording_mark *const *)b;

	if (left->freed_bytes != right->freed_bytes)
		return left->freed_bytes < right->freed_bytes ? 1 : -1;
	return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

/* Lists cleanups by freed bytes, the largest first. Returns how many. The caller frees. */
static size_t largest(const struct mt_marks *marks, const struct mt_recording_mark ***out)
{
	size_t room = count_marks(marks, MT_RECORDING_CLEANUP), at = 0, count = 0;
	const struct mt_recording_mark **list = mt_error_check_memory(
					       calloc(room + 1, sizeof(*list))),
				       *mark;

	while ((mark = next(marks, MT_RECORDING_CLEANUP, &at)))
		if (mark->freed_bytes >= FREED_MIN)
			list[count++] = mark;
	qsort(list, count, sizeof(*list), compare_freed);
	*out = list;
	return count;
}

static bool has_room(const struct mt_box *taken, size_t count, double left, double right)
{
	for (size_t i = 0; i < count; i++)
		if (left < taken[i].right + 6 && right > taken[i].left - 6)
			return false;
	return true;
}

bool mt_marks_has_freed(const struct mt_marks *marks)
{
	const struct mt_recording_mark *mark;
	size_t at = 0;

	while ((mark = next(marks, MT_RECORDING_CLEANUP, &at)))
		if (mark->freed_bytes >= FREED_MIN)
			return true;
	return false;
}

void mt_marks_draw_freed(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double beside)
{
	const struct mt_font font = {11, false, MT_RGB_TEXT, MT_ANCHOR_MIDDLE};
	struct mt_scale scale = panel_time_scale(box, marks->span);
	const struct mt_recording_mark **list;
	size_t count = largest(marks, &list), drawn = 0;
	struct mt_box taken[FREED_MAX];

	mt_canvas_begin(canvas, "freed", NULL);
	for (size_t i = 0;
	     i < count && drawn < FREED_MAX && list[i]->freed_bytes >= list[0]->freed_bytes / 10;
	     i++) {
		struct mt_short_text text = mt_text_change(list[i]->freed_bytes, 0);
		double half = mt_canvas_text_width(canvas, text.text, &font) / 2,
		       x = mt_scale_position(&scale, time_of(marks, list[i]));

		x = fmin(fmax(x, box->left - beside + half), box->right + beside - half);
		if (!has_room(taken, drawn, x - half, x + half))
			continue;
		taken[drawn++] = (struct mt_box){x - half, 0, x + half, 0};
		mt_canvas_text(canvas, (struct mt_point){x, box->top - 7}, text.text, &font);
	}
	mt_canvas_end(canvas);
	free(list);
}

/* ---- the legend ---- */

size_t mt_marks_legend(const struct mt_marks *marks, struct mt_legend_item *out)
{
	static const char *const cleanups[MT_LEVEL_COUNT] = {"purge", "light cleanup",
							     "heavy cleanup"};
	static const char *const pressures[MT_PRESSURE_LEVEL_COUNT] = {NULL, "pressure: warn",
								       "pressure: critical"};
	size_t seen[3][MT_LEVEL_COUNT] = {{0}}, count = 0, at;
	const struct mt_recording_mark *mark;

	for (int kind = MT_RECORDING_ROUND; kind <= MT_RECORDING_PRESSURE; kind++)
		for (at = 0; (mark = next(marks, (enum mt_recording_kind)kind, &at));)
			seen[kind][mark->level]++;
	if (seen[MT_RECORDING_ROUND][0])
		out[count++] = (struct mt_legend_item){
			.text = "round", .kind = MT_LEGEND_SHAPE, .shape = round_shape};
	for (size_t level = 0; level < MT_LEVEL_COUNT; level++)
		if (seen[MT_RECORDING_CLEANUP][level])
			out[count++] = (struct mt_legend_item){.text = cleanups[level],
							       .kind = MT_LEGEND_SHAPE,
							       .shape = cleanup_shapes[level]};
	for (size_t level = MT_PRESSURE_WARN; level < MT_PRESSURE_LEVEL_COUNT; level++)
		if (seen[MT_RECORDING_PRESSURE][level])
			out[count++] = (struct mt_legend_item){.text = pressures[level],
							       .kind = MT_LEGEND_HATCH,
							       .paint = pressure_inks[level],
							       .step = pressure_steps[level]};
	return count;
}
