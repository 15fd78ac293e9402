#include "ctl/ui/top/prompt.h"

#include <string.h>

#include "ctl/ui/top/keys.h"

static enum mt_top_prompt_event text_key(struct mt_top_prompt *prompt, int key, size_t room)
{
	size_t length = strlen(prompt->text);

	if (room > sizeof(prompt->text))
		room = sizeof(prompt->text);
	switch (key) {
	case MT_KEY_ENTER:
		return MT_PROMPT_ACCEPTED;
	case MT_KEY_ESCAPE:
		return MT_PROMPT_CANCELLED;
	case MT_KEY_BACKSPACE:
		if (!length)
			return MT_PROMPT_UNCHANGED;
		prompt->text[length - 1] = '\0';
		return MT_PROMPT_EDITED;
	case MT_KEY_CONTROL('u'):
		prompt->text[0] = '\0';
		return MT_PROMPT_EDITED;
	default:
		if (key < 0x20 || key >= 0x7f || length + 2 > room)
			return MT_PROMPT_UNCHANGED;
		prompt->text[length] = (char)key;
		prompt->text[length + 1] = '\0';
		return MT_PROMPT_EDITED;
	}
}

enum mt_top_prompt_event mt_top_prompt_key(struct mt_top_prompt *prompt, int key, size_t room)
{
	if (prompt->kind == MT_PROMPT_HEAVY)
		return key == 'y' || key == 'Y' ? MT_PROMPT_ACCEPTED : MT_PROMPT_CANCELLED;
	return text_key(prompt, key, room);
}

void mt_top_prompt_draw(const struct mt_top_prompt *prompt, struct mt_cells *canvas, int row)
{
	struct mt_cell_place at = {row, 0, 0};
	const char *text = prompt->text;
	int room;

	mt_cells_paint_row(canvas, row, MT_STYLE_PLAIN);
	at.column = mt_cells_put(canvas, (struct mt_cell_place){row, 0, canvas->columns / 2},
				 MT_STYLE_KEY, prompt->label);
	if (prompt->kind == MT_PROMPT_HEAVY)
		at.column = mt_cells_put(canvas, (struct mt_cell_place){row, 0, 0}, MT_STYLE_KEY,
					 prompt->label);
	room = canvas->columns - at.column - 1;
	if ((int)strlen(text) > room && room > 0)
		text += (int)strlen(text) - room;
	at.column = mt_cells_put(canvas, at, MT_STYLE_PLAIN, text);
	mt_cells_put_glyph(canvas, at, MT_STYLE_SELECTED, L' ');
}
