/* core/config_value.c -- the parser and the formatter of one value of a setting. Contract:
 * core/config.h. */
#include <signal.h>
#include <string.h>

#include "core/core_internal.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/os.h"

/* words at odd positions are true */
static const char *const bool_words[] = {"0", "1", "off", "on", "no", "yes", "false", "true"};

/* Returns whether text starts with word, without regard to case; *rest is the text after it. */
static bool text_begins(const char *text, const char *word, const char **rest)
{
	for (; *word != '\0'; text++, word++)
		if (mt_format_lower(*text) != mt_format_lower(*word))
			return false;
	*rest = text;
	return true;
}

static bool text_is(const char *text, const char *word)
{
	const char *rest;

	return text_begins(text, word, &rest) && *rest == '\0';
}

/* Accepts decimal digits only: strtoul(3) accepts signs and blanks, and reads the locale. */
static enum mt_err parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	const char *at = text;
	uint64_t value = mt_os_parse_digits(&at);

	mt_assert(max < UINT64_MAX); /* what a larger number is read as */
	if (at == text || *at != '\0')
		return MT_ERR_INVALID;
	if (value < min || value > max)
		return MT_ERR_RANGE;
	*out = value;
	return MT_ERR_OK;
}

static enum mt_err parse_count(const struct mt_option_row *row, const char *text, uint64_t *out)
{
	if (!text_is(text, "auto"))
		return parse_number(text, row->min, row->max, out);
	*out = MT_COUNT_AUTO;
	return MT_ERR_OK;
}

static enum mt_err parse_bool(const char *text, uint64_t *out)
{
	for (size_t i = 0; i < sizeof(bool_words) / sizeof(bool_words[0]); i++)
		if (text_is(text, bool_words[i])) {
			*out = i & 1;
			return MT_ERR_OK;
		}
	return MT_ERR_INVALID;
}

static enum mt_err parse_choice(const char *words, const char *text, uint64_t *out)
{
	const char *word = words;

	for (uint64_t position = 0; word; position++) {
		size_t same = 0;

		while (word[same] != '|' && text[same] != '\0' &&
		       mt_format_lower(text[same]) == word[same])
			same++;
		if (text[same] == '\0' && (word[same] == '|' || word[same] == '\0')) {
			*out = position;
			return MT_ERR_OK;
		}
		word = strchr(word, '|');
		word = word ? word + 1 : NULL;
	}
	return MT_ERR_INVALID;
}

/* A signal that users send to end or stop a program, or that the kernel sends, keeps its meaning.
 * libc reserves the two below SIGRTMIN. */
static bool signal_is_supported(uint64_t number)
{
	return number == 0 || number == SIGUSR1 || number == SIGUSR2 ||
	       (number >= (uint64_t)SIGRTMIN && number <= (uint64_t)SIGRTMAX);
}

static enum mt_err parse_signal_number(const struct mt_option_row *row, const char *text,
				       uint64_t *out)
{
	uint64_t number;
	enum mt_err err = parse_number(text, row->min, row->max, &number);

	if (err != MT_ERR_OK)
		return err;
	if (!signal_is_supported(number))
		return MT_ERR_INVALID;
	*out = number;
	return MT_ERR_OK;
}

static enum mt_err parse_signal(const struct mt_option_row *row, const char *text, uint64_t *out)
{
	const char *name = text;
	const char *rest;
	uint64_t above;
	enum mt_err err;

	(void)text_begins(text, "SIG", &name);
	if (text_is(name, "USR1") || text_is(name, "USR2")) {
		*out = name[3] == '1' ? SIGUSR1 : SIGUSR2;
		return MT_ERR_OK;
	}
	if (text_is(text, "none")) {
		*out = 0;
		return MT_ERR_OK;
	}
	if (!text_begins(name, "RTMIN", &rest))
		return name == text ? parse_signal_number(row, text, out) : MT_ERR_INVALID;
	if (*rest == '\0') {
		*out = (uint64_t)SIGRTMIN;
		return MT_ERR_OK;
	}
	if (*rest != '+')
		return MT_ERR_INVALID;
	err = parse_number(rest + 1, 0, (uint64_t)(SIGRTMAX - SIGRTMIN), &above);
	if (err == MT_ERR_OK)
		*out = (uint64_t)SIGRTMIN + above;
	return err;
}

static enum mt_err parse_round(const struct mt_option_row *row, const char *text, uint64_t *out)
{
	const char *rest;
	uint64_t seconds;
	enum mt_err err;

	if (text_begins(text, "timer:", &rest)) {
		err = parse_number(rest, row->min, row->max, &seconds);
		if (err == MT_ERR_OK)
			*out = MT_ROUND_TIMER | seconds << 8;
		return err;
	}
	if (text_is(text, "mark"))
		*out = MT_ROUND_MARK;
	else if (text_is(text, "signal"))
		*out = MT_ROUND_SIGNAL;
	else if (text_is(text, "auto"))
		*out = MT_ROUND_AUTO;
	else
		return MT_ERR_INVALID;
	return MT_ERR_OK;
}

enum mt_err mt_config_value_parse(const struct mt_option_row *row, const char *text, uint64_t *out)
{
	switch ((enum mt_kind)row->kind) {
	case MT_KIND_bool:
		return parse_bool(text, out);
	case MT_KIND_u64:
		return parse_number(text, row->min, row->max, out);
	case MT_KIND_count:
		return parse_count(row, text, out);
	case MT_KIND_choice:
		return parse_choice(row->words, text, out);
	case MT_KIND_text:
		return strlen(text) < MT_TEXT_MAX ? MT_ERR_OK : MT_ERR_RANGE;
	case MT_KIND_signal:
		return parse_signal(row, text, out);
	case MT_KIND_round:
		return parse_round(row, text, out);
	}
	return MT_ERR_INVALID;
}

static void format_choice(const char *words, uint64_t position, char *out, size_t out_bytes)
{
	const char *word = words;

	for (; position > 0 && *word != '\0'; position--) {
		word += strcspn(word, "|");
		word += *word == '|';
	}
	(void)mt_format(out, out_bytes, "%.*s", (int)strcspn(word, "|"), word);
}

static void format_signal(uint64_t number, char *out, size_t out_bytes)
{
	if (number == 0)
		(void)mt_format(out, out_bytes, "none");
	else if (number == SIGUSR1 || number == SIGUSR2)
		(void)mt_format(out, out_bytes, "USR%c", number == SIGUSR1 ? '1' : '2');
	else
		(void)mt_format(out, out_bytes, "RTMIN+%lu",
				(unsigned long)number - (unsigned long)SIGRTMIN);
}

static void format_round(uint64_t round, char *out, size_t out_bytes)
{
	static const char *const words[] = {"timer", "mark", "signal", "auto"};
	enum mt_round_mode mode = mt_round_mode_of(round);

	if (mode == MT_ROUND_TIMER)
		(void)mt_format(out, out_bytes, "timer:%lu",
				(unsigned long)mt_round_seconds_of(round));
	else
		(void)mt_format(out, out_bytes, "%s", mode <= MT_ROUND_AUTO ? words[mode] : "?");
}

void mt_config_value_format(const struct mt_option_row *row, uint64_t value, char *out,
			    size_t out_bytes)
{
	switch ((enum mt_kind)row->kind) {
	case MT_KIND_bool:
		(void)mt_format(out, out_bytes, "%s", value != 0 ? "on" : "off");
		break;
	case MT_KIND_choice:
		format_choice(row->words, value, out, out_bytes);
		break;
	case MT_KIND_signal:
		format_signal(value, out, out_bytes);
		break;
	case MT_KIND_round:
		format_round(value, out, out_bytes);
		break;
	case MT_KIND_count:
		if (value == MT_COUNT_AUTO)
			(void)mt_format(out, out_bytes, "auto");
		else
			(void)mt_format(out, out_bytes, "%llu", (unsigned long long)value);
		break;
	case MT_KIND_u64:
	case MT_KIND_text:
		(void)mt_format(out, out_bytes, "%llu", (unsigned long long)value);
		break;
	}
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

void mt_config_value_allowed(const struct mt_option_row *row, char *out, size_t out_bytes)
{
	const unsigned long long min = row->min, max = row->max;

	mt_assert(min <= max);
	switch ((enum mt_kind)row->kind) {
	case MT_KIND_bool:
		(void)mt_format(out, out_bytes, "0|1|on|off|yes|no|true|false");
		break;
	case MT_KIND_u64:
		(void)mt_format(out, out_bytes, "%llu..%llu%s", min, max, unit_of(row->name));
		break;
	case MT_KIND_count:
		(void)mt_format(out, out_bytes, "%llu..%llu|auto", min, max);
		break;
	case MT_KIND_choice:
		(void)mt_format(out, out_bytes, "%s", row->words);
		break;
	case MT_KIND_text:
		(void)mt_format(out, out_bytes, "text of at most %d bytes", MT_TEXT_MAX - 1);
		break;
	case MT_KIND_signal:
		(void)mt_format(out, out_bytes, "USR1|USR2|RTMIN+n|none");
		break;
	case MT_KIND_round:
		(void)mt_format(out, out_bytes,
				"timer:SECONDS|mark|signal|auto, SECONDS %llu..%llu", min, max);
		break;
	}
}
