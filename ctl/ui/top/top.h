/* ctl/ui/top/top.h -- `mtctl top`. */
#ifndef MT_CTL_UI_TOP_TOP_H
#define MT_CTL_UI_TOP_TOP_H

int mt_command_top(int argc, char **argv);

#endif
