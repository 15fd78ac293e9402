/* ctl/ui/plot/plotting.h -- the two commands of this program, and the parsers of their options. */
#ifndef MT_CTL_UI_PLOT_PLOTTING_H
#define MT_CTL_UI_PLOT_PLOTTING_H

#include <stdbool.h>

int mt_plot_run(int argc, char **argv);
int mt_compare_run(int argc, char **argv);

/* Parses WIDTHxHEIGHT in pixels, 300x200 to 8000x8000. Returns false after a message on stderr. */
bool mt_plotting_parse_size(const char *text, double *out_width, double *out_height);

/* Parses "90", "90s", "5m", "2h", "1d" as seconds above 0. Returns false after a message on stderr.
 */
bool mt_plotting_parse_duration(const char *text, double *out);

#endif
