/* ctl/ui/top/page.c -- see page.h. */
#include "ctl/ui/top/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/output/error.h"

void mt_top_page_add(struct mt_top_page *page, enum mt_top_style style, const char *format, ...)
{
	struct mt_top_page_line *line;
	va_list arguments;

	if (page->count == page->room) {
		page->room = page->room ? page->room * 2 : 64;
		page->lines = mt_error_check_memory(
			realloc(page->lines, page->room * sizeof(*page->lines)));
	}
	line = &page->lines[page->count++];
	line->style = style;
	va_start(arguments, format);
	vsnprintf(line->text, sizeof(line->text), format, arguments);
	va_end(arguments);
}

void mt_top_page_free(struct mt_top_page *page)
{
	free(page->lines);
	*page = (struct mt_top_page){0};
}

void mt_top_page_draw(const struct mt_top_page *page, struct mt_top_canvas *canvas,
		      struct mt_top_at from, size_t *first)
{
	size_t height = from.end > from.row ? (size_t)(from.end - from.row) : 0;

	if (*first + height > page->count)
		*first = page->count > height ? page->count - height : 0;
	for (size_t i = 0; i < height && *first + i < page->count; i++) {
		const struct mt_top_page_line *line = &page->lines[*first + i];

		if (line->style == MT_STYLE_HEADING)
			mt_top_paint_row(canvas, from.row + (int)i, line->style);
		mt_top_put(canvas, (struct mt_top_at){from.row + (int)i, from.column, 0},
			   line->style, line->text);
	}
}
