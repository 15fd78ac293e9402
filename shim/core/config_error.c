/* core/config_error.c -- warnings about rejected settings. Contract: core/config_error.h. */
#include "core/config_error.h"

#include <string.h>

#include "core/config_option.h"
#include "sys/format.h"

#define SHOWN_MAX 60 /* bytes of a name or value that are repeated to the user */

/* Copies text so that it stays on one line and cannot control a terminal. */
static void quote(const char *text, size_t length, char out[SHOWN_MAX + 4])
{
	size_t shown = length < SHOWN_MAX ? length : SHOWN_MAX;

	for (size_t i = 0; i < shown; i++)
		out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	memcpy(out + shown, length > shown ? "..." : "", length > shown ? 4 : 1);
}

/* The unit of a number, which its name ends with; "" for a plain one. */
static const char *unit_of(const char *name)
{
	static const char *const units[][2] = {
		{"_ms", " ms"}, {"_mb", " MB"}, {"_gb", " GB"}, {"_pct", " %"}};
	const size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		const size_t end = strlen(units[i][0]);

		if (length > end && strcmp(name + length - end, units[i][0]) == 0)
			return units[i][1];
	}
	return "";
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
		(void)mt_format(out, out_bytes, "a whole number from %llu to %llu%s",
				(unsigned long long)row->min, (unsigned long long)row->max,
				unit_of(row->name));
		break;
	case MT_KIND_count:
		(void)mt_format(out, out_bytes, "a whole number from %llu to %llu or auto",
				(unsigned long long)row->min, (unsigned long long)row->max);
		break;
	case MT_KIND_decimal:
		(void)mt_format(out, out_bytes,
				"a number from %llu.0 to %llu.0%s with at most three decimals",
				(unsigned long long)row->min, (unsigned long long)row->max,
				unit_of(row->name));
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
		(void)mt_format(out, out_bytes, "USR1, USR2, RTMIN+n, or none");
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

static const char *nearest_setting(const char *name, size_t length)
{
	const char *names[MT_OPTION_COUNT];

	for (unsigned option = 0; option < MT_OPTION_COUNT; option++)
		names[option] = mt_config_row(option)->name;
	return mt_nearest_word(name, length, names, MT_OPTION_COUNT);
}

MT_COLD void mt_config_error_name(const char *name, size_t length, mt_config_report report)
{
	char line[MT_CONFIG_ERROR_MAX];
	char shown[SHOWN_MAX + 4];
	char capitals[MT_WORD_MAX + 1];
	const char *suggestion = nearest_setting(name + 3, length - 3);
	size_t i = 0;

	quote(name, length, shown);
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
