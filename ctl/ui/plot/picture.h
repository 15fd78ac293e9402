/* ctl/ui/plot/picture.h -- the picture of one recording: title, legend, one field for the process's
 * memory and one for each device, lanes of what happened, and the axis of time. */
#ifndef MT_CTL_UI_PLOT_PICTURE_H
#define MT_CTL_UI_PLOT_PICTURE_H

#include "ctl/ui/plot/canvas.h"
#include "ctl/ui/plot/panel.h"
#include "ctl/ui/plot/pool.h"
#include "ctl/metrics/recording.h"

#define MT_PICTURE_SIDE   78.0 /* left of the fields, for the words of their axes */
#define MT_PICTURE_MARGIN 24.0

struct mt_picture_options {
	const char *path;
	const char *title;      /* NULL: the command */
	double width, height;   /* 0: as the picture needs it */
	double since_s, last_s; /* what part: from this time on; of that the end; 0: all */
	uint64_t pid;           /* 0: all processes of the recording */
	bool gpu, as_clock;
	const struct mt_pool *pool; /* drawn below all, or NULL */
};

/* INVALID: nothing to be drawn, or the ending of the file. */
enum mt_err mt_picture_draw(const struct mt_recording *recording,
			    const struct mt_picture_options *options, struct mt_why *why);

/* The picture of a pool alone. */
enum mt_err mt_picture_draw_pool(const struct mt_pool *pool,
				 const struct mt_picture_options *options, struct mt_why *why);

/* Text from a command line, fit for a picture: valid UTF-8 stays, what controls a terminal and what
 * XML forbids becomes '?'. */
void mt_picture_clean(const char *text, char *out, size_t out_bytes);

/* The title in large letters, and a line below it; what is too long for the width ends with "...".
 */
void mt_picture_draw_title(struct mt_canvas *canvas, double width, const char *title,
			   const char *below);

#endif
