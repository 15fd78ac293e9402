/* ctl/process/parts_bar.c -- see parts_bar.h. */
#include "ctl/process/parts_bar.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output/table.h"

/* A mode of shading differs for each part, so that a reader who sees no colours can tell them. */
static const struct look {
	enum mt_colour colour;
	const char *block;
} looks[MT_PARTS_COUNT] = {
	[MT_PART_LIVE] = {MT_COLOUR_LIVE, "\u2588"},
	[MT_PART_REUSABLE] = {MT_COLOUR_REUSABLE, "\u2592"},
	[MT_PART_FILES] = {MT_COLOUR_FILES, "\u2593"},
	[MT_PART_OTHER] = {MT_COLOUR_OTHER, "\u2591"},
};

static void append(struct mt_parts_bar *bar, const char *text)
{
	size_t used = strlen(bar->text);

	snprintf(bar->text + used, sizeof(bar->text) - used, "%s", text);
}

/* Only the characters of the locale: numbers are written as everywhere. */
static bool is_utf8(void)
{
	static int known = -1;

	if (known < 0)
		known = setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	return known;
}

static void append_cells(struct mt_parts_bar *bar, enum mt_memory_part part, int count)
{
	const char glyph[] = {mt_memory_part_glyph(part), '\0'};
	bool has_blocks = *mt_table_colour(looks[part].colour) && is_utf8();

	if (count <= 0)
		return;
	append(bar, mt_table_colour(looks[part].colour));
	for (int i = 0; i < count; i++)
		append(bar, has_blocks ? looks[part].block : glyph);
	append(bar, mt_table_colour_end());
}

struct mt_parts_bar mt_parts_bar(const struct mt_memory_parts *parts, uint64_t full_bytes,
				 int width)
{
	struct mt_parts_bar bar = {""};
	int ends[MT_PARTS_COUNT], from = 0;

	mt_memory_parts_divide(parts, full_bytes,
			       width < MT_PARTS_BAR_MAX ? width : MT_PARTS_BAR_MAX, ends);
	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		append_cells(&bar, (enum mt_memory_part)i, ends[i] - from);
		from = ends[i];
	}
	return bar;
}

struct mt_parts_bar mt_parts_bar_cell(enum mt_memory_part part)
{
	struct mt_parts_bar bar = {""};

	append_cells(&bar, part, 1);
	return bar;
}
