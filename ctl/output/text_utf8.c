/* ctl/output/text_utf8.c -- text that may be UTF-8: see text.h. */
#include <jansson.h>
#include <string.h>

#include "ctl/output/text.h"

void mt_text_clean_utf8(const char *text, char *out, size_t out_bytes)
{
	json_t *valid = json_string(text);
	unsigned char *byte = (unsigned char *)out;
	size_t length = strlen(text);

	if (length >= out_bytes) {
		length = out_bytes - 1;
		/* never within a character */
		while (length && ((unsigned char)text[length] & 0xc0) == 0x80)
			length--;
	}
	memcpy(out, text, length);
	out[length] = '\0';
	if (!valid)
		mt_text_clean(out, out_bytes);
	json_decref(valid);
	for (; *byte; byte++) {
		if (*byte < 0x20 || *byte == 0x7f)
			*byte = '?';
		else if (byte[0] == 0xc2 && byte[1] >= 0x80 && byte[1] < 0xa0) /* C1 controls */
			byte[0] = byte[1] = '?';
		/* U+FFFE and U+FFFF are no XML */
		else if (byte[0] == 0xef && byte[1] == 0xbf && byte[2] >= 0xbe)
			byte[0] = byte[1] = byte[2] = '?';
	}
}
