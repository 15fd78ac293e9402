/* ctl/ui/plot/comparison.h -- the picture of several recordings: their RSS in one panel and their
 * device memory in another, each from its own start, and a table below. */
#ifndef MT_CTL_UI_PLOT_COMPARISON_H
#define MT_CTL_UI_PLOT_COMPARISON_H

#include "ctl/metrics/run.h"
#include "ctl/plot_options.h"

enum mt_err mt_comparison_draw(const struct mt_run *runs, size_t count,
			       const struct mt_compare_options *options,
			       struct mt_error_reason *why);

#endif
