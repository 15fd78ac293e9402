/* ctl/output/text.h -- small pieces of text: figures with units, words, reading of /proc files.
 * Figures come back by value, so that they can stand inside a printf. MB and GB are 2^20 and 2^30
 * bytes. */
#ifndef MT_CTL_OUTPUT_TEXT_H
#define MT_CTL_OUTPUT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_short_text {
	char text[64];
};

struct mt_short_text mt_text_bytes(uint64_t bytes); /* "262.1 MB", "16.0 GB" from 10 GB on */
struct mt_short_text mt_text_change(uint64_t from, uint64_t to); /* "-311.9 MB", "+0.2 MB" */
struct mt_short_text mt_text_ns(uint64_t ns);       /* "12.3 ms", "61.5 s" from 10 s on */
struct mt_short_text mt_text_count(uint64_t count); /* "1,234,567" */
/* "1 round", "1,234 rounds" */
struct mt_short_text mt_text_counted(uint64_t count, const char *one, const char *more);
struct mt_short_text mt_text_clock(uint64_t realtime_ns); /* local time, "14:03:21.250" */

/* A figure in the unit that its name ends with (_bytes _ns _us _ms _count _thousandths); anything
 * else is a plain number. */
struct mt_short_text mt_text_field(const char *name, uint64_t value);

/* Makes text from elsewhere fit for a terminal and for JSON: ended by NUL, whatever is not
 * printable ASCII is '?'. */
void mt_text_clean(char *text, size_t text_bytes);

bool mt_text_ends_with(const char *text, const char *end);

/* What follows the last slash. */
const char *mt_text_basename(const char *path);

/* A whole number, decimal digits alone, up to UINT64_MAX. */
bool mt_text_parse_u64(const char *text, uint64_t *out);

/* What was computed, as a whole number again: what has no room is the largest, and what is below
 * nothing, or no number, 0. */
uint64_t mt_text_round_u64(double value);

/* Returns the word that a mistyped one may mean, NULL: none; sys/nearest_word.h has the rule. */
const char *mt_text_nearest(const char *word, const char *const *words, size_t count);

#endif
