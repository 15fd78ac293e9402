/* ctl/ui/top/help.h -- what keys, columns and colours mean, for the screen of help and for `mtctl
 * top --help`. Pure. */
#ifndef MT_CTL_UI_TOP_HELP_H
#define MT_CTL_UI_TOP_HELP_H

#include "ctl/ui/top/page.h"

/* Lines are broken at `columns`. */
void mt_top_help_fill(struct mt_top_page *page, int columns);

#endif
