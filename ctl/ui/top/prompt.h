/* ctl/ui/top/prompt.h -- the line at the bottom that asks for something: a text, or yes or no.
 * Pure. */
#ifndef MT_CTL_UI_TOP_PROMPT_H
#define MT_CTL_UI_TOP_PROMPT_H

#include "ctl/ui/top/canvas.h"

enum mt_top_prompt_kind { MT_PROMPT_NONE, MT_PROMPT_FILTER, MT_PROMPT_SET, MT_PROMPT_HEAVY };

struct mt_top_prompt {
	enum mt_top_prompt_kind kind;
	char label[96];
	char text[160];
};

enum mt_top_answer { MT_ANSWER_NOT_YET, MT_ANSWER_CHANGED, MT_ANSWER_TAKEN, MT_ANSWER_LEFT };

/* One key. A question (HEAVY) is TAKEN by y alone, and LEFT by any other key; a text is TAKEN by
 * Enter and LEFT by Esc. `room` is how many bytes of text its taker has place for, the NUL too. */
enum mt_top_answer mt_top_prompt_key(struct mt_top_prompt *prompt, int key, size_t room);

/* In the row; where label and text are longer than it, the end of the text is in sight. */
void mt_top_prompt_draw(const struct mt_top_prompt *prompt, struct mt_top_canvas *canvas, int row);

#endif
