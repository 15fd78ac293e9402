#include "ctl/output/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"

void mt_markup_text(FILE *to, const char *text)
{
	static const char letters[] = "&<>\"'", *const entities[] = {"&amp;", "&lt;", "&gt;",
								     "&quot;", "&#39;"};

	for (; *text; text++) {
		const char *letter = strchr(letters, *text);

		if (letter)
			fputs(entities[letter - letters], to);
		else
			fputc(*text, to);
	}
}

/* ---- HTML ---- */

void mt_html_text(FILE *to, const char *text)
{
	size_t room = strlen(text) + 1;
	char *clean = mt_error_check_memory(malloc(room));

	mt_text_clean_utf8(text, clean, room);
	mt_markup_text(to, clean);
	free(clean);
}

void mt_html_textf(FILE *to, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	mt_html_text(to, text);
}

void mt_html_cell(FILE *to, const char *tag, const char *text)
{
	fputs(tag, to);
	mt_html_text(to, text);
	fputs("</td>", to);
}

static void write_row(FILE *to, const char *element, const char *classes, va_list texts)
{
	fputs("<tr>", to);
	for (bool is_last = false; !is_last; classes += *classes == '|') {
		int length = (int)strcspn(classes, "|");

		fprintf(to, length ? "<%s class=\"%.*s\">" : "<%s>", element, length, classes);
		mt_html_text(to, va_arg(texts, const char *));
		fprintf(to, "</%s>", element);
		classes += length;
		is_last = !*classes;
	}
	fputs("</tr>", to);
}

void mt_html_head(FILE *to, const char *classes, ...)
{
	va_list texts;

	va_start(texts, classes);
	fputs("<table><thead>", to);
	write_row(to, "th", classes, texts);
	fputs("</thead><tbody>\n", to);
	va_end(texts);
}

void mt_html_row(FILE *to, const char *classes, ...)
{
	va_list texts;

	va_start(texts, classes);
	write_row(to, "td", classes, texts);
	putc('\n', to);
	va_end(texts);
}
