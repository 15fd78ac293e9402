/* ctl/ui/top/screen.h -- the terminal, by ncurses. No other part of the view knows it. For one
 * thread. */
#ifndef MT_CTL_UI_TOP_SCREEN_H
#define MT_CTL_UI_TOP_SCREEN_H

#include "ctl/output/error.h"
#include "ctl/ui/top/canvas.h"

/* Takes the terminal over. NOT_AVAILABLE: there is none, or it cannot move the cursor; *why says
 * which, and what to do instead. */
enum mt_err mt_top_screen_start(struct mt_error_reason *why);

/* Restores the terminal. exit() does so, too. */
void mt_top_screen_end(void);

bool mt_top_screen_has_colours(void);
void mt_top_screen_size(int *columns, int *rows);
void mt_top_screen_show(const struct mt_top_canvas *canvas);

/* Draws all of the next frame, since another program has written to the terminal. */
void mt_top_screen_redraw(void);

/* Returns the next key that was pressed; MT_KEY_NONE: none. Does not wait. */
int mt_top_screen_key(void);

#endif
