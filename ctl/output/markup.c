#include "ctl/output/markup.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"
#include "ctl/output/text.h"

static void put(FILE *to, char letter)
{
	switch (letter) {
	case '&':
		fputs("&amp;", to);
		break;
	case '<':
		fputs("&lt;", to);
		break;
	case '>':
		fputs("&gt;", to);
		break;
	case '"':
		fputs("&quot;", to);
		break;
	case '\'':
		fputs("&#39;", to);
		break;
	default:
		fputc(letter, to);
	}
}

void mt_markup_text(FILE *to, const char *text)
{
	for (; *text; text++)
		put(to, *text);
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

static void write_list(FILE *to, const char *format, va_list arguments)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, arguments);
	mt_html_text(to, text);
}

void mt_html_textf(FILE *to, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_list(to, format, arguments);
	va_end(arguments);
}

void mt_html_cell(FILE *to, const char *tag, const char *text)
{
	fputs(tag, to);
	mt_html_text(to, text);
	fputs("</td>", to);
}

void mt_html_cellf(FILE *to, const char *tag, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs(tag, to);
	write_list(to, format, arguments);
	fputs("</td>", to);
	va_end(arguments);
}
