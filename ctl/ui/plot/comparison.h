/* ctl/ui/plot/comparison.h -- the picture of several recordings: their RSS in one panel and their
 * device memory in another, each from its own start, and a table below. */
#ifndef MT_CTL_UI_PLOT_COMPARISON_H
#define MT_CTL_UI_PLOT_COMPARISON_H

#include "ctl/metrics/recording.h"

#define MT_COMPARISON_MAX 12u

struct mt_comparison_options {
	const char *path;
	const char *title;                     /* NULL: the names of the runs */
	const char *labels[MT_COMPARISON_MAX]; /* NULL: the name of the file */
	double width, height;                  /* pixels; 0: as needed */
};

enum mt_err mt_comparison_draw(const struct mt_recording *runs, size_t count,
			       const struct mt_comparison_options *options,
			       struct mt_error_reason *why);

#endif
