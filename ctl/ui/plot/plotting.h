/* ctl/ui/plot/plotting.h -- the two commands of this program, and how they read what is on the
 * command line. */
#ifndef MT_CTL_UI_PLOT_PLOTTING_H
#define MT_CTL_UI_PLOT_PLOTTING_H

#include <stdbool.h>

int mt_plot_run(int argc, char **argv);
int mt_compare_run(int argc, char **argv);

/* WIDTHxHEIGHT in pixels, 300x200 to 8000x8000. Says what is wrong. */
bool mt_plotting_parse_size(const char *text, double *out_width, double *out_height);

/* "90", "90s", "5m", "2h", "1d", as seconds above 0. Says what is wrong. */
bool mt_plotting_parse_duration(const char *text, double *out);

#endif
