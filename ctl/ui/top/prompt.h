/* ctl/ui/top/prompt.h -- the input line at the bottom: for a text, or for yes or no. Pure. */
#ifndef MT_CTL_UI_TOP_PROMPT_H
#define MT_CTL_UI_TOP_PROMPT_H

#include "ctl/output/cells.h"

enum mt_top_prompt_kind { MT_PROMPT_NONE, MT_PROMPT_FILTER, MT_PROMPT_SET, MT_PROMPT_HEAVY };

struct mt_top_prompt {
	enum mt_top_prompt_kind kind;
	char label[96];
	char text[160];
};

enum mt_top_prompt_event {
	MT_PROMPT_UNCHANGED,
	MT_PROMPT_EDITED,
	MT_PROMPT_ACCEPTED,
	MT_PROMPT_CANCELLED
};

/* Handles one key. A question (HEAVY) is accepted by y alone, and cancelled by any other key. A
 * text is accepted by Enter and cancelled by Esc. `room`: bytes of text that fit, with the NUL. */
enum mt_top_prompt_event mt_top_prompt_key(struct mt_top_prompt *prompt, int key, size_t room);

/* Draws label and text in the row. Where they do not fit, the end of the text is visible. */
void mt_top_prompt_draw(const struct mt_top_prompt *prompt, struct mt_cells *canvas, int row);

#endif
