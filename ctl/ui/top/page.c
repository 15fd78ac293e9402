#include "ctl/ui/top/top.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

/* cells of a line behind its indent */
#define ROOM_MIN 16

static void add_one(struct mt_top_page *page, enum mt_cell_style style, int indent,
		    const char *text, int bytes)
{
	struct mt_top_page_line *line;

	page->lines = mt_error_make_room(page->lines, page->count, sizeof(*page->lines));
	line = &page->lines[page->count++];
	line->style = style;
	snprintf(line->text, sizeof(line->text), "%*s%.*s", indent, "", bytes, text);
}

/* The bytes of a line that fit, up to a blank if there is one behind `from`. */
static int length_of_line(const char *text, int cells, int from)
{
	int fits = mt_text_fit(text, cells), length = fits;

	if (!text[fits])
		return fits;
	while (length > from && text[length] != ' ')
		length--;
	return length > from ? length : fits;
}

void mt_top_page_add(struct mt_top_page *page, enum mt_cell_style style, const char *format, ...)
{
	char text[1024];
	const char *rest = text;
	int cells = page->columns - page->indent, indent = 0, length;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	length = length_of_line(text, page->columns, page->indent);
	do {
		add_one(page, style, indent, rest, length);
		rest += length;
		rest += strspn(rest, " ");
		indent = page->indent;
		length = length_of_line(rest, cells > ROOM_MIN ? cells : ROOM_MIN, 1);
	} while (*rest);
}

/* What of a row does not fit stands below its last column. */
static void add_line(void *data, size_t row, const char *line)
{
	struct mt_top_page *page = data;
	const char *last = strrchr(line, ' ');

	if (!row && last && last - line + 2 < page->columns - ROOM_MIN)
		page->indent = (int)(last - line) + 2;
	mt_top_page_add(page, row ? MT_STYLE_PLAIN : MT_STYLE_HEADING, " %s", line);
}

void mt_top_page_add_table(struct mt_top_page *page, struct mt_table *table)
{
	int indent = page->indent;

	mt_table_each_line(table, add_line, page);
	page->indent = indent;
}

void mt_top_page_free(struct mt_top_page *page)
{
	free(page->lines);
	*page = (struct mt_top_page){0};
}

void mt_top_page_draw(const struct mt_top_page *page, struct mt_cells *canvas,
		      struct mt_cell_place from, size_t *first)
{
	size_t height = from.end > from.row ? (size_t)(from.end - from.row) : 0;

	if (*first + height > page->count)
		*first = page->count > height ? page->count - height : 0;
	for (size_t i = 0; i < height && *first + i < page->count; i++) {
		const struct mt_top_page_line *line = &page->lines[*first + i];

		if (line->style == MT_STYLE_HEADING)
			mt_cells_paint_row(canvas, from.row + (int)i, line->style);
		mt_cells_put(canvas, (struct mt_cell_place){from.row + (int)i, from.column, 0},
			     line->style, line->text);
	}
}

/* ---- help ---- */

struct entry {
	const char *name, *meaning;
};

static const struct entry keys[] = {
#define X(name, meaning) {name, meaning},
	MT_TOP_KEYS(X)
#undef X
};

static const struct entry notes[] = {
	{"Mem", "the machine's memory; of what is used, held by shimmed processes: live (#), "
		"reusable (~), files (=), other (.), then all other processes (|)"},
	{"Lim, Swp, GPU",
	 "the container's limit that is nearest, swap, device memory, all by whomever it is used"},
	{"pressure", "the highest level of any process at its own limits, and how many have it; "
		     "stalled: time of the last 10 s that tasks waited for memory"},
	{"pane",
	 "the selected process by itself: its four parts over up to 15 minutes; on the time "
	 "axis its cleanups: p purge, r at the end of a round, l light, h heavy, green where "
	 "memory was returned, yellow for pressure; dotted: cleanups are not kept that long"},
	{"returned", "what all cleanups of a process, or of all processes, have taken off RSS"},
	{"yellow", "reusable memory worth a cleanup, much fragmentation, a process under pressure"},
	{"red",
	 "critical pressure, cleaning over its budget, a stats file or MT_DIR that is refused"},
	{"figures", "are as the processes last wrote them, a second old, or half a minute where "
		    "nothing moves; nobody is woken"},
	{"RSS of many",
	 "pages that processes share count in each: `mtctl ps --tree` has what can be added up"},
};

/* "  name      meaning" */
static void add_entry(struct mt_top_page *page, const struct entry *entry, int indent)
{
	const char *name = entry->name;

	page->indent = indent;
	if ((int)strlen(name) > indent - 3) {
		mt_top_page_add(page, MT_STYLE_PLAIN, "  %s", name);
		name = "";
	}
	mt_top_page_add(page, MT_STYLE_PLAIN, "  %-*s %s", indent - 3, name, entry->meaning);
}

void mt_top_help_fill(struct mt_top_page *page)
{
	mt_top_page_add(page, MT_STYLE_LABEL, "Keys");
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		add_entry(page, &keys[i], 18);
	mt_top_page_add(page, MT_STYLE_PLAIN, "%s", "");
	mt_top_page_add(page, MT_STYLE_LABEL, "Columns (the name for --sort in parentheses)");
	for (int i = 0; i < MT_COLUMNS_COUNT; i++) {
		const struct mt_top_column_info *column = mt_top_column((enum mt_top_column)i);
		char name[40];
		const struct entry entry = {name, column->help};

		snprintf(name, sizeof(name), "%s (%s)", column->heading, column->name);
		add_entry(page, &entry, 20);
	}
	mt_top_page_add(page, MT_STYLE_PLAIN, "%s", "");
	mt_top_page_add(page, MT_STYLE_LABEL, "What is what");
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		add_entry(page, &notes[i], 17);
}

/* ---- prompt ---- */

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
