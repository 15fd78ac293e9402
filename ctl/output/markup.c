#include "ctl/output/markup.h"

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
