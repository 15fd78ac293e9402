/* ctl/output/markup.h -- text in HTML, SVG and XML. Any thread may call, one at a time for a
 * file. */
#ifndef MT_CTL_OUTPUT_MARKUP_H
#define MT_CTL_OUTPUT_MARKUP_H

#include <stdio.h>

/* Writes text for the content of an element, or for an attribute in quotes of either kind. Other
 * characters than & < > " ' are written as they are: clean the text of a process first
 * (mt_text_clean_utf8). */
void mt_markup_text(FILE *to, const char *text);

/* ---- HTML ---- */

/* Text in an HTML page. All text that is not a constant of this program goes
 * through these functions: names, command lines and settings are chosen by the process. One thread
 * may call. */

/* Writes text for the content of an element, or for a quoted attribute. Control characters and what
 * is not UTF-8 become "?". */
void mt_html_text(FILE *to, const char *text);

/* The same with the format of printf, up to 1,023 bytes. */
void mt_html_textf(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Write the head of a table up to its body, and a row of it. `classes` has the class of each cell,
 * constant text: "n|n more|code". A text for each cell follows. */
void mt_html_head(FILE *to, const char *classes, ...);
void mt_html_row(FILE *to, const char *classes, ...);

/* Writes a cell: a constant tag ("<td>", "<td class=\"n\">"), the text, and "</td>". */
void mt_html_cell(FILE *to, const char *tag, const char *text);

#endif
