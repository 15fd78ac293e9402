/* ctl/output/markup.h -- text in HTML, SVG and XML. Any thread may call, one at a time for a
 * file. */
#ifndef MT_CTL_OUTPUT_MARKUP_H
#define MT_CTL_OUTPUT_MARKUP_H

#include <stdio.h>

/* Writes text for the content of an element, or for an attribute in quotes of either kind. Other
 * characters than & < > " ' are written as they are: clean the text of a process first
 * (mt_text_clean_utf8). */
void mt_markup_text(FILE *to, const char *text);

#endif
