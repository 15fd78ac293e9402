/* ctl/ui/plot/picture.h -- the picture of one recording, or of several. One: title, legend, a panel
 * for the memory of the process and one for each device, lanes of events, and the axis of time. */
#ifndef MT_CTL_UI_PLOT_PICTURE_H
#define MT_CTL_UI_PLOT_PICTURE_H

#include "ctl/metrics/run.h"
#include "ctl/plot_options.h"
#include "ctl/ui/plot/panel.h"
#include "ctl/ui/plot/pool.h"

/* left of the panels, for the labels of their axes */
#define MT_PICTURE_SIDE   78.0
#define MT_PICTURE_MARGIN 24.0

struct mt_picture_options {
	const char *path;
	FILE *page;             /* not NULL: a part of an HTML page: see canvas.h */
	bool untitled;          /* without the two lines at the top: the page has them */
	const char *title;      /* NULL: the command */
	double width, height;   /* pixels; 0: as needed */
	double since_s, last_s; /* shown from this time on; of that the last part; 0: all */
	uint64_t pid;           /* 0: all processes of the recording */
	bool gpu, as_clock;
	const struct mt_pool_picture *pool; /* drawn at the bottom, or NULL */
};

/* Draws a recording into the file options->path. INVALID: nothing to be drawn, or an unknown ending
 * of the name. SYSTEM: the file cannot be written. */
enum mt_err mt_picture_draw(const struct mt_recording *recording,
			    const struct mt_picture_options *options, struct mt_error_reason *why);

/* Draws a pool alone. */
enum mt_err mt_picture_draw_pool(const struct mt_pool_picture *pool,
				 const struct mt_picture_options *options,
				 struct mt_error_reason *why);

/* Draws a title and a line below it. Text that is too wide ends with "...". */
void mt_picture_draw_title(struct mt_canvas *canvas, double width, const char *title,
			   const char *below);

/* Draws several recordings: their RSS in one panel and their device memory in another, each from
 * its own start, and a table below. */
enum mt_err mt_comparison_draw(const struct mt_run *runs, size_t count,
			       const struct mt_compare_options *options,
			       struct mt_error_reason *why);

#endif
