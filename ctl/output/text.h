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

/* Of `count` words the one that a mistyped one may have meant: the shortest that begins with it
 * (from two letters on: who stops early has made no mistake so far), else the nearest by edit
 * distance, at most 3 and less than the word's own length; NULL: none is near. core/config_error.c
 * has the same for the environment, where no allocation is allowed. */
const char *mt_text_nearest(const char *word, const char *const *words, size_t count);

/* Opens a regular file to be read, close-on-exec; -1 with errno set, EINVAL for what is none. What
 * lies under a name that another user chose may be anything: it is looked at before it is opened,
 * which of a pipe is to wait for its writer, and of a device an act. Files of /proc and of cgroups
 * are regular ones. */
int mt_text_open_regular(const char *path);

/* Reads a file whole, as files of /proc are (no size, any length), ended by a NUL that *length does
 * not count. NULL with errno set, EFBIG where it is longer than 64 MB, or than most_bytes. The
 * caller frees. _file and _most: regular files alone (a process says where its cgroup is). _stream:
 * of any kind, for a name that the user has typed. */
char *mt_text_read_file(const char *path, size_t *length);
char *mt_text_read_most(const char *path, size_t most_bytes, size_t *length);
/* no more than so many, and no error where more are there */
char *mt_text_read_first(const char *path, size_t bytes, size_t *length);
char *mt_text_read_stream(const char *path, size_t *length);

/* The number after "key" at the start of a line, as in "VmRSS:    123 kB" or "inactive_file 4096";
 *   false: no such
 * line. No unit is applied. */
bool mt_text_find_number(const char *text, const char *key, uint64_t *out);

#endif
