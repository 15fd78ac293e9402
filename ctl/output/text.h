/* ctl/output/text.h -- numbers with units as text, and small operations on text. Text is returned
 * by value, so that it can be an argument of printf. MB and GB are 2^20 and 2^30 bytes. Any thread
 * may call. */
#ifndef MT_CTL_OUTPUT_TEXT_H
#define MT_CTL_OUTPUT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct mt_short_text {
	char text[64];
};

/* A text in the format of printf, cut to fit. */
struct mt_short_text mt_text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct mt_short_text mt_text_bytes(uint64_t bytes);       /* "262.1 MB", "16.0 GB" from 10 GB on */
struct mt_short_text mt_text_signed_bytes(int64_t bytes); /* "1.2 MB", "-12.3 kB" */
struct mt_short_text mt_text_change(uint64_t from, uint64_t to); /* "-311.9 MB", "+0.2 MB" */
struct mt_short_text mt_text_ns(uint64_t ns); /* "12.3 ms", "61.5 s" from 10 s on */
/* as mt_units_duration reads it: "100 ms", "1.5 s", "2 min", "24 h" */
struct mt_short_text mt_text_duration(double seconds);
/* "12 s", "5 min", "3 h", "2 days": two of a unit at least, but for seconds */
struct mt_short_text mt_text_span(uint64_t ns);
struct mt_short_text mt_text_count(uint64_t count); /* "1,234,567" */
/* "1 round", "1,234 rounds" */
struct mt_short_text mt_text_counted(uint64_t count, const char *one, const char *more);
struct mt_short_text mt_text_clock(uint64_t realtime_ns); /* local time, "14:03:21.250" */
/* Local time in a format of strftime(3), cut to fit. */
struct mt_short_text mt_text_date(uint64_t realtime_ns, const char *format)
	__attribute__((format(strftime, 2, 0)));

/* Replaces what is no printable character of UTF-8 with "?", and ends the text with a NUL, so that
 * text of a process is safe for a terminal and for JSON. On a terminal of another character set
 * also all that is not ASCII. */
void mt_text_clean(char *text, size_t text_bytes);

/* Copies text of a user for a picture or a terminal, cut to fit: valid UTF-8 stays; control
 * characters and what XML forbids become "?". */
void mt_text_clean_utf8(const char *text, char *out, size_t out_bytes);

/* Sets the locale of characters from the environment (LC_ALL, LC_CTYPE, LANG) at the first call.
 * Returns whether its character set is UTF-8. */
bool mt_text_locale_is_utf8(void);

/* Returns how many bytes of clean text fit into `columns` of a terminal, for "%.*s". */
int mt_text_fit(const char *text, int columns);

/* Returns the columns that clean text takes on a terminal; escape sequences for colours take none.
 */
int mt_text_columns(const char *text);

bool mt_text_ends_with(const char *text, const char *end);

/* Returns the text after the last slash. */
const char *mt_text_basename(const char *path);

/* Reads a whole number: decimal digits only, up to UINT64_MAX. */
bool mt_text_parse_u64(const char *text, uint64_t *out);

/* Converts a computed value to a whole number: UINT64_MAX if it is too large, 0 if it is
 * negative or not a number. */
uint64_t mt_text_round_u64(double value);

/* Returns the shortest of `words` that begins with `word`, which needs two letters for that. Else
 * the one with the smallest edit distance, up to DISTANCE_MAX and half of the longer word: else
 * all words of three letters would resemble one another. NULL: none. */
const char *mt_text_nearest(const char *word, const char *const *words, size_t count);

/* ---- numbers that are short enough for columns ---- */

/* up to 5 characters up to 9999 TB: "512K", "9.8M", "1.25G" */
struct mt_short_text mt_short_bytes(uint64_t bytes);
struct mt_short_text mt_short_change(uint64_t before, uint64_t after); /* "-311M", "+4.0M", "0" */
struct mt_short_text mt_short_ago(uint64_t now_ns,
				  /* "12s", "59m", "23h", "99d"; "0s" for a time in the future */
				  uint64_t then_ns);
struct mt_short_text mt_short_percent(double percent); /* "0.04", "3.1", "42" */

/* ---- units ---- */

/* Numbers as users write them: "7e9", "7B", "7000M"; "16G", "16GiB", "500
 * MB"; "100ms", "2m"; "85%". "2,048" is not valid. Counts use powers of 1000, sizes powers of 1024.
 * Negative, infinite and hexadecimal numbers are not valid. Pure. */

/* Reads a count. K, M, B or G, and T may follow. */
bool mt_units_count(const char *text, double *out);

/* Reads a size in bytes. K, M, G or T must follow, with B or iB after it, in upper or lower case:
 * 16 alone could mean anything. */
bool mt_units_bytes(const char *text, double *out);

/* Reads a plain number. */
bool mt_units_number(const char *text, double *out);

/* Reads a duration in seconds: 0.5, 30s, 100ms, 2m or 2min, 1h, 1d. A plain number is seconds. */
bool mt_units_duration(const char *text, double *out_s);

/* Reads a percentage from 0 to 100: 85, 85%, 2.5 %. */
bool mt_units_percent(const char *text, double *out);

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
