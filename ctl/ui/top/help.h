/* ctl/ui/top/help.h -- the meaning of keys, columns and colours, for the help screen and for `mtctl
 * top --help`. Pure. */
#ifndef MT_CTL_UI_TOP_HELP_H
#define MT_CTL_UI_TOP_HELP_H

#include "ctl/ui/top/page.h"

/* Appends the help to the page, in lines of up to `columns` characters. */
void mt_top_help_fill(struct mt_top_page *page, int columns);

#endif
