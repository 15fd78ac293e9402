/* core/config_error.c -- warnings about rejected settings. Contract: core/config_error.h. */
#include "core/config_error.h"

#include <limits.h>
#include <string.h>

#include "core/config_option.h"
#include "sys/format.h"
#include "sys/saturating.h"

#define SHOWN_MAX    60 /* bytes of a name or value that are repeated to the user */
#define NAME_MAX_LEN 40 /* no setting is longer: a longer name resembles none */
#define DISTANCE_MAX 3u

/* Copies text so that it stays on one line and cannot control a terminal. */
static void quote(const char *text, size_t length, char out[SHOWN_MAX + 4])
{
	size_t shown = length < SHOWN_MAX ? length : SHOWN_MAX;

	for (size_t i = 0; i < shown; i++)
		out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	memcpy(out + shown, length > shown ? "..." : "", length > shown ? 4 : 1);
}

/* Describes the valid values, to follow "not ". */
static void describe(const struct mt_option_row *row, char *out, size_t out_bytes)
{
	size_t used;

	switch ((enum mt_kind)row->kind) {
	case MT_KIND_bool:
		(void)mt_format(out, out_bytes, "one of 0, 1, on, off, yes, no, true, false");
		break;
	case MT_KIND_u64:
		(void)mt_format(out, out_bytes, "a whole number from %llu to %llu",
				(unsigned long long)row->min, (unsigned long long)row->max);
		break;
	case MT_KIND_count:
		(void)mt_format(out, out_bytes, "a whole number from %llu to %llu or auto",
				(unsigned long long)row->min, (unsigned long long)row->max);
		break;
	case MT_KIND_decimal:
		(void)mt_format(out, out_bytes,
				"a number from %llu.0 to %llu.0 with at most three decimals",
				(unsigned long long)row->min, (unsigned long long)row->max);
		break;
	case MT_KIND_choice:
		used = mt_format(out, out_bytes, "one of ");
		for (const char *from = row->words; *from != '\0' && used + 3 < out_bytes; from++) {
			out[used++] = *from == '|' ? ',' : *from;
			if (*from == '|')
				out[used++] = ' ';
		}
		out[used] = '\0';
		break;
	case MT_KIND_text:
		(void)mt_format(out, out_bytes, "a text of at most %d bytes", MT_TEXT_MAX - 1);
		break;
	case MT_KIND_signal:
		(void)mt_format(
			out, out_bytes,
			"USR1, USR2, RTMIN+n, the number of a signal free to be caught, or none");
		break;
	case MT_KIND_round:
		(void)mt_format(out, out_bytes,
				"timer:SECONDS (%llu to %llu), mark, signal or auto",
				(unsigned long long)row->min, (unsigned long long)row->max);
		break;
	}
}

MT_COLD void mt_config_error_value(const struct mt_rejected_value *refusal, const char *kept,
				   mt_config_report report)
{
	char line[MT_CONFIG_ERROR_MAX];
	char shown[SHOWN_MAX + 4];
	char wanted[128];
	char taken[SHOWN_MAX + 4];

	quote(refusal->value, strlen(refusal->value), shown);
	describe(mt_config_row(refusal->option), wanted, sizeof(wanted));
	quote(kept, strlen(kept), taken);
	(void)mt_format(line, sizeof(line), "%s=%s: %snot %s; %s is taken", refusal->label, shown,
			*refusal->value == '\0' ? "empty, " : "", wanted,
			*taken == '\0' ? "no value" : taken);
	report(line);
}

/* Returns the edit distance, without regard to case. A swap of neighbours is one edit (optimal
 * string alignment), so three rows of the table suffice. Both lengths: up to NAME_MAX_LEN. */
static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned rows[3][NAME_MAX_LEN + 1];

	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= a_length; i++) {
		const unsigned *above = rows[(i - 1) % 3];
		const unsigned *twice_above = rows[(i + 1) % 3];
		unsigned *row = rows[i % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_length; j++) {
			char x = mt_ascii_lower(a[i - 1]);
			char y = mt_ascii_lower(b[j - 1]);

			row[j] = (unsigned)mt_min_u64(above[j - 1] + (x != y),
						      mt_min_u64(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && x == mt_ascii_lower(b[j - 2]) &&
			    y == mt_ascii_lower(a[i - 2]))
				row[j] = (unsigned)mt_min_u64(row[j], twice_above[j - 2] + 1);
		}
	}
	return rows[a_length % 3][b_length];
}

/* Returns how much longer the known name is, where it begins with `name`; else UINT_MAX. `name`
 * needs at least two letters. */
static unsigned extra_length(const char *name, size_t length, const char *known,
			     size_t known_length)
{
	if (length < 2 || known_length < length || known_length > NAME_MAX_LEN)
		return UINT_MAX;
	for (size_t i = 0; i < length; i++)
		if (mt_ascii_lower(name[i]) != mt_ascii_lower(known[i]))
			return UINT_MAX;
	return (unsigned)(known_length - length);
}

/* Returns the shortest setting that begins with this name; NULL for none. So MT_IDLE suggests
 * MT_IDLE_MS, not MT_ONLY. */
static const char *find_by_prefix(const char *name, size_t length)
{
	const char *best = NULL;
	unsigned best_more = UINT_MAX;

	for (unsigned option = 0; option < MT_OPTION_COUNT; option++) {
		const char *known = mt_config_row(option)->name;
		unsigned more = extra_length(name, length, known, strlen(known));

		if (more < best_more) {
			best = known;
			best_more = more;
		}
	}
	return best;
}

/* Returns the setting with the smallest edit distance; NULL for none. Half of the name must match,
 * else every name of three letters would resemble every other. */
static const char *find_nearest(const char *name, size_t length)
{
	const char *best = NULL;
	unsigned best_distance = DISTANCE_MAX + 1;

	if (length > NAME_MAX_LEN)
		return NULL;
	for (unsigned option = 0; option < MT_OPTION_COUNT; option++) {
		const char *known = mt_config_row(option)->name;
		size_t known_length = strlen(known);
		size_t longer = known_length > length ? known_length : length;
		unsigned edits;

		if (known_length > NAME_MAX_LEN)
			continue;
		edits = edit_distance(name, length, known, known_length);
		if (edits < best_distance && edits <= longer / 2) {
			best = known;
			best_distance = edits;
		}
	}
	return best;
}

MT_COLD void mt_config_error_name(const char *name, size_t length, mt_config_report report)
{
	char line[MT_CONFIG_ERROR_MAX];
	char shown[SHOWN_MAX + 4];
	char capitals[NAME_MAX_LEN + 1];
	const char *suggestion = find_by_prefix(name + 3, length - 3);
	size_t i = 0;

	quote(name, length, shown);
	if (suggestion == NULL)
		suggestion = find_nearest(name + 3, length - 3);
	if (suggestion == NULL) {
		(void)mt_format(line, sizeof(line), "%s: no such setting", shown);
	} else {
		for (; suggestion[i] != '\0'; i++)
			capitals[i] = mt_ascii_upper(suggestion[i]);
		capitals[i] = '\0';
		(void)mt_format(line, sizeof(line), "%s: no such setting; did you mean MT_%s?",
				shown, capitals);
	}
	report(line);
}
