/* ctl/ui/plot/panel.h -- one field of a picture: lines and areas of bytes over time, with its own
 * axis of bytes. The axis of time is shared by all panels of a picture, and drawn below the
 * last. */
#ifndef MT_CTL_UI_PLOT_PANEL_H
#define MT_CTL_UI_PLOT_PANEL_H

#include "ctl/ui/plot/palette.h"
#include "ctl/ui/plot/scale.h"
#include "ctl/ui/plot/series.h"

struct mt_curve {
	const char *name;        /* a word, for the group that it is drawn as */
	struct mt_series series; /* owned */
	/* an area stands on this, where it has points (as many as `series`); owned */
	struct mt_series base;
	struct mt_paint paint;
	double fill;                /* alpha of the area below it, 0 none */
	struct mt_shape_look shape; /* on the line here and there, where the radius is not 0 */
};

#define MT_CURVES_MOST 16u

struct mt_panel {
	char title[96];
	struct mt_curve curves[MT_CURVES_MOST];
	size_t curves_count;
	double below_title; /* room between the title and the field, for who writes there */
	/* of the field itself; the axis stands to the left of it, the title above */
	struct mt_box box;
};

/* What part of time is shown. `origin` is second 0 on CLOCK_REALTIME; as_clock: the axis has times
 * of day. */
struct mt_span {
	double low, high, origin;
	bool as_clock;
};

/* The field with its grid and its axis; then what is behind the lines may be drawn, then the lines.
 */
void mt_panel_draw_field(struct mt_canvas *canvas, const struct mt_panel *panel);
void mt_panel_draw_curves(struct mt_canvas *canvas, struct mt_panel *panel,
			  const struct mt_span *span);

/* The axis of time below `y`; its words end 20 pixels lower. */
void mt_panel_draw_time(struct mt_canvas *canvas, const struct mt_box *box, double y,
			const struct mt_span *span);

struct mt_scale mt_panel_time_scale(const struct mt_box *box, const struct mt_span *span);
void mt_panel_free(struct mt_panel *panel);

#endif
