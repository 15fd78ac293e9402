/* ctl/cmd/plot_text.h -- `mtctl plot` without -o: a recording as a chart of characters. */
#ifndef MT_CTL_CMD_PLOT_TEXT_H
#define MT_CTL_CMD_PLOT_TEXT_H

#include "ctl/metrics/recording.h"
#include "ctl/plot_options.h"

/* Prints the chart to stdout, as large as the terminal. as_clock: times of day. Returns
 * MT_ERR_INVALID where there is nothing to draw. */
enum mt_err mt_plot_text(const struct mt_recording *recording,
			 const struct mt_plot_options *options, bool as_clock,
			 struct mt_error_reason *why);

#endif
