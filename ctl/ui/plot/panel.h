/* ctl/ui/plot/panel.h -- one panel of a picture: lines and areas of bytes over time, with its own
 * axis of bytes. All panels of a picture share the axis of time below the last one. */
#ifndef MT_CTL_UI_PLOT_PANEL_H
#define MT_CTL_UI_PLOT_PANEL_H

#include "ctl/metrics/scale.h"
#include "ctl/metrics/series.h"
#include "ctl/ui/plot/canvas.h"

struct mt_curve {
	const char *name;        /* the class of its group */
	struct mt_series series; /* owned */
	/* the lower edge of the area, if it has points (as many as `series`); owned */
	struct mt_series base;
	struct mt_paint paint;
	double fill;                 /* alpha of the area below the line; 0: none */
	struct mt_shape_style shape; /* on the line at intervals, if the radius is not 0 */
};

#define MT_CURVES_MAX 16u

struct mt_panel {
	char title[96];
	struct mt_curve curves[MT_CURVES_MAX];
	size_t curves_count;
	double below_title; /* pixels between the title and the panel, for text of others */
	/* of the panel itself; the axis is left of it, the title above */
	struct mt_box box;
	struct mt_scale bytes; /* of the axis, once the field is drawn */
};

/* The shown time. `origin` is second 0 on CLOCK_REALTIME; as_clock: the axis shows times of day. */
struct mt_span {
	double low, high, origin;
	bool as_clock;
};

/* Draws an axis of bytes at the left of the box, and its lines across: from 0 to at least `high`,
 * in about `wanted` steps. Returns its scale. */
struct mt_scale mt_panel_draw_bytes(struct mt_canvas *canvas, const struct mt_box *box, double high,
				    size_t wanted);

/* Draw the grid and the axis of bytes, and then the curves. What lies behind the curves may be
 * drawn between the two calls. */
void mt_panel_draw_field(struct mt_canvas *canvas, struct mt_panel *panel);
void mt_panel_draw_curves(struct mt_canvas *canvas, struct mt_panel *panel,
			  const struct mt_span *span);

/* Draws the axis of time below `y`; its labels end 20 pixels lower. */
void mt_panel_draw_time(struct mt_canvas *canvas, const struct mt_box *box, double y,
			const struct mt_span *span);

void mt_panel_free(struct mt_panel *panel);

/* ---- marks ---- */

/* Events in a picture: rounds and cleanups in lanes below the panels,
 * pressure as areas behind them, the bytes freed by the largest cleanups above them. */

#define MT_MARKS_LEGEND 6u /* items at most */

struct mt_marks {
	const struct mt_recording *recording;
	uint64_t pid; /* 0: of all processes */
	uint64_t origin_ns;
	const struct mt_span *span;
};

/* Draws behind the curves of one panel: areas of pressure, and a line at each larger cleanup. */
void mt_marks_draw_behind(struct mt_canvas *canvas, const struct mt_marks *marks,
			  const struct mt_box *box);

/* Returns the height of the lanes in pixels: one for rounds and one for cleanups, if there are
 * any. */
double mt_marks_height(const struct mt_marks *marks);

/* Draws the lanes from `y` down; `box` gives left and right. */
void mt_marks_draw_lanes(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double y);

/* Draws the bytes freed by the largest cleanups in one row above the panel. Text may extend
 * `beside` pixels to the left and right of the box. mt_marks_has_freed: whether there are any. */
bool mt_marks_has_freed(const struct mt_marks *marks);
void mt_marks_draw_freed(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double beside);

/* Writes the items of all kinds of events that exist, and returns how many. */
size_t mt_marks_legend(const struct mt_marks *marks, struct mt_legend_item *out);

#endif
