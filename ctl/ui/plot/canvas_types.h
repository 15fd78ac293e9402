/* ctl/ui/plot/canvas_types.h -- points, strokes and fonts: what a canvas is told. Plain values. */
#ifndef MT_CTL_UI_PLOT_CANVAS_TYPES_H
#define MT_CTL_UI_PLOT_CANVAS_TYPES_H

#include <stdbool.h>
#include <stdint.h>

struct mt_canvas_point {
	double x, y;
};

enum mt_dash { MT_DASH_NONE, MT_DASH_LONG, MT_DASH_DOTS, MT_DASH_MIXED, MT_DASH_COUNT };

struct mt_paint {
	uint32_t rgb;
	double alpha; /* 1: covers */
	double width; /* of a line */
	enum mt_dash dash;
};

enum mt_anchor { MT_ANCHOR_START, MT_ANCHOR_MIDDLE, MT_ANCHOR_END };

struct mt_font {
	double size;
	bool bold;
	uint32_t rgb;
	enum mt_anchor anchor;
};

struct mt_canvas_options {
	const char *path, *title; /* the title is for who reads the file's properties */
	double width, height;
};

#endif
