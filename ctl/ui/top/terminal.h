/* ctl/ui/top/terminal.h -- whether there is a terminal that ncurses can draw on: asked before,
 * since ncurses itself would end the program with a sentence that helps nobody. */
#ifndef MT_CTL_UI_TOP_TERMINAL_H
#define MT_CTL_UI_TOP_TERMINAL_H

#include "ctl/output/error.h"

/* NOT_AVAILABLE: no terminal, or one that cannot move the cursor; *why says which, and what to do
 * instead. */
enum mt_err mt_top_terminal_check(struct mt_why *why);

#endif
