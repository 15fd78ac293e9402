/* ctl/output/nearest_word.h -- finds the known word that a mistyped one resembles, for a message.
 * Pure: any thread may call. Takes no lock, never allocates, never reads the locale. */
#ifndef MT_CTL_OUTPUT_NEAREST_WORD_H
#define MT_CTL_OUTPUT_NEAREST_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sys/format.h"
#include "sys/saturating.h"

#define MT_WORD_MAX     40 /* a longer word resembles none */
#define MT_DISTANCE_MAX 3u

/* Returns the edit distance, without regard to case. A swap of neighbours is one edit (optimal
 * string alignment), so three rows of the table suffice. Lengths: up to MT_WORD_MAX. */
static inline size_t mt_edit_distance(const char *a, size_t a_length, const char *b,
				      size_t b_length)
{
	size_t rows[3][MT_WORD_MAX + 1];

	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		const size_t *above = rows[(i - 1) % 3];
		const size_t *twice_above = rows[(i + 1) % 3];
		size_t *row = rows[i % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			char x = mt_ascii_lower(a[i - 1]);
			char y = mt_ascii_lower(b[j - 1]);

			row[j] = mt_min_u64(above[j - 1] + (x != y),
					    mt_min_u64(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && x == mt_ascii_lower(b[j - 2]) &&
			    y == mt_ascii_lower(a[i - 2]))
				row[j] = mt_min_u64(row[j], twice_above[j - 2] + 1);
		}
	}
	return rows[a_length % 3][b_length];
}

static inline bool mt_word_begins(const char *word, const char *start, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (mt_ascii_lower(word[i]) != mt_ascii_lower(start[i]))
			return false;
	return true;
}

/* Returns the shortest of `words` that begins with `word`, which needs two letters for that. Else
 * the one with the smallest edit distance, up to MT_DISTANCE_MAX and half of the longer word: else
 * all words of three letters would resemble one another. NULL: none. length: of `word`. */
static inline const char *mt_nearest_word(const char *word, size_t length, const char *const *words,
					  size_t count)
{
	const char *longer = NULL, *nearest = NULL;
	size_t best = MT_DISTANCE_MAX + 1;

	for (size_t i = 0; length <= MT_WORD_MAX && i < count; i++) {
		size_t known = strlen(words[i]);
		size_t distance;

		if (known > MT_WORD_MAX)
			continue;
		if (length >= 2 && known >= length && mt_word_begins(words[i], word, length) &&
		    (!longer || known < strlen(longer)))
			longer = words[i];
		distance = mt_edit_distance(word, length, words[i], known);
		if (distance < best && distance <= mt_max_u64(known, length) / 2) {
			best = distance;
			nearest = words[i];
		}
	}
	return longer ? longer : nearest;
}

#endif
