/* ctl/ui/plot/plotting.h -- the commands of this program. */
#ifndef MT_CTL_UI_PLOT_PLOTTING_H
#define MT_CTL_UI_PLOT_PLOTTING_H

int mt_plot_run(int argc, char **argv);
int mt_compare_run(int argc, char **argv);
int mt_report_run(int argc, char **argv);

#endif
