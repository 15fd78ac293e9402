/* ctl/ui/top/screen.h -- the terminal, by ncurses: the only part of the view that knows it. */
#ifndef MT_CTL_UI_TOP_SCREEN_H
#define MT_CTL_UI_TOP_SCREEN_H

#include "ctl/output/error.h"
#include "ctl/ui/top/canvas.h"

/* NOT_AVAILABLE: no terminal, or one that cannot move the cursor; *why says which and what to do
 * instead. */
enum mt_err mt_top_screen_start(struct mt_why *why);

/* Leaves the terminal as it was found; exit does so, too. */
void mt_top_screen_end(void);

bool mt_top_screen_has_colours(void);
void mt_top_screen_size(int *columns, int *rows);
void mt_top_screen_show(const struct mt_top_canvas *canvas);

/* Somebody else has written on the terminal: the next frame is drawn again, all of it. */
void mt_top_screen_spoiled(void);

/* The next key that has been pressed, MT_KEY_NONE where there is none. */
int mt_top_screen_key(void);

#endif
