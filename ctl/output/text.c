#include "ctl/output/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "sys/format.h"
#include "sys/saturating.h"

#define MB 1048576.0

struct mt_short_text mt_text_format(const char *format, ...)
{
	struct mt_short_text result;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(result.text, sizeof(result.text), format, arguments);
	va_end(arguments);
	return result;
}

struct mt_short_text mt_text_bytes(uint64_t bytes)
{
	if (bytes >= (uint64_t)10 << 30)
		return mt_text_format("%.1f GB", (double)bytes / MB / 1024);
	return mt_text_format("%.1f MB", (double)bytes / MB);
}

struct mt_short_text mt_text_signed_bytes(int64_t bytes)
{
	uint64_t value = bytes < 0 ? (uint64_t)-bytes : (uint64_t)bytes;

	if (value < UINT64_C(1) << 20)
		return mt_text_format("%s%.1f kB", bytes < 0 ? "-" : "", (double)value / 1024);
	return mt_text_format("%s%.60s", bytes < 0 ? "-" : "", mt_text_bytes(value).text);
}

static const char *sign_of(uint64_t from, uint64_t to)
{
	return to > from ? "+" : to < from ? "-" : "";
}

struct mt_short_text mt_text_change(uint64_t from, uint64_t to)
{
	return mt_text_format("%s%s", sign_of(from, to),
			      mt_text_bytes(to > from ? to - from : from - to).text);
}

struct mt_short_text mt_text_ns(uint64_t ns)
{
	if (ns >= 10000000000u)
		return mt_text_format("%.1f s", (double)ns / 1e9);
	return mt_text_format("%.1f ms", (double)ns / 1e6);
}

struct mt_short_text mt_text_duration(double seconds)
{
	static const struct {
		const char *unit;
		double seconds, from;
	} units[] = {{"h", 3600, 7200}, {"min", 60, 120}, {"s", 1, 1}, {"ms", 1e-3, 1e-3}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (seconds >= units[i].from)
			return mt_text_format("%.4g %s", seconds / units[i].seconds, units[i].unit);
	return mt_text_format("0 s");
}

struct mt_short_text mt_text_span(uint64_t ns)
{
	static const struct {
		const char *unit;
		uint64_t seconds;
	} units[] = {{"days", 86400}, {"h", 3600}, {"min", 60}};
	uint64_t seconds = ns / 1000000000u;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (seconds >= 2 * units[i].seconds)
			return mt_text_format("%" PRIu64 " %s", seconds / units[i].seconds,
					      units[i].unit);
	return mt_text_format("%" PRIu64 " s", seconds);
}

struct mt_short_text mt_text_count(uint64_t count)
{
	struct mt_short_text result;
	char digits[24];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count), used = 0;

	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			result.text[used++] = ',';
		result.text[used++] = digits[i];
	}
	result.text[used] = '\0';
	return result;
}

struct mt_short_text mt_text_counted(uint64_t count, const char *one, const char *more)
{
	return mt_text_format("%.27s %s", mt_text_count(count).text, count == 1 ? one : more);
}

struct mt_short_text mt_text_date(uint64_t realtime_ns, const char *format)
{
	struct mt_short_text result = {"?"};
	time_t seconds = (time_t)(realtime_ns / 1000000000u);
	struct tm broken;

	if (localtime_r(&seconds, &broken))
		strftime(result.text, sizeof(result.text), format, &broken);
	return result;
}

struct mt_short_text mt_text_clock(uint64_t realtime_ns)
{
	return mt_text_format("%.32s.%03u", mt_text_date(realtime_ns, "%H:%M:%S").text,
			      (unsigned)(realtime_ns % 1000000000u / 1000000u));
}

/* The bytes of a character of UTF-8 that begins with this one; 0: none does. */
static size_t length_of(unsigned char first)
{
	return first < 0x80   ? 1
	       : first < 0xc2 ? 0
	       : first < 0xe0 ? 2
	       : first < 0xf0 ? 3
	       : first < 0xf5 ? 4
			      : 0;
}

/* Reads one character, up to the NUL behind the text. Returns its bytes; 0: the bytes here are
 * none. *out_cut: the text ends within it. */
static size_t read_character(const char *text, uint32_t *out, bool *out_cut)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800,
					 0x10000}; /* shorter forms are invalid */
	size_t bytes = length_of((unsigned char)*text);

	*out_cut = false;
	*out = bytes == 1 ? (unsigned char)*text : (unsigned char)*text & (0x7fu >> bytes);
	for (size_t i = 1; i < bytes; i++) {
		*out_cut = text[i] == '\0';
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 0;
		*out = *out << 6 | ((unsigned char)text[i] & 0x3f);
	}
	return *out < least[bytes] ? 0 : bytes;
}

/* Not: control characters, those that turn or hide the text around them (bidirectional, of no
 * width), surrogates, and what is no character. */
static bool is_shown(uint32_t point)
{
	static const uint32_t hidden[][2] = {
		{0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},       {0x200b, 0x200f},
		{0x2028, 0x202e}, {0x2060, 0x206f}, {0xd800, 0xdfff},     {0xfeff, 0xfeff},
		{0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, UINT32_MAX}};

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (point >= hidden[i][0] && point <= hidden[i][1])
			return false;
	return point > 0x1f;
}

/* The columns of a terminal that a character takes. */
static int columns_of(uint32_t point)
{
	int columns = mt_text_locale_is_utf8() ? wcwidth((wchar_t)point) : 1;

	return columns < 0 ? 1 : columns;
}

/* Of a character that was cut at the end of the text nothing stays. */
static void clean(char *text, size_t text_bytes, bool is_utf8)
{
	size_t length = text_bytes ? strnlen(text, text_bytes - 1) : 0, bytes;
	uint32_t point;
	bool is_cut;

	if (text_bytes)
		memset(text + length, 0, text_bytes - length);
	for (size_t i = 0; i < length; i += bytes) {
		bytes = read_character(text + i, &point, &is_cut);
		if (is_cut && is_utf8) {
			memset(text + i, 0, length - i);
			return;
		}
		if (!bytes || !is_shown(point) || (bytes > 1 && !is_utf8))
			memset(text + i, '?', bytes ? bytes : 1);
		bytes += !bytes;
	}
}

bool mt_text_locale_is_utf8(void)
{
	static int known = -1;

	if (known < 0)
		known = setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	return known;
}

/* Bytes of UTF-8 may be control characters on a terminal of another character set. */
static bool takes_utf8(void)
{
	static int answer = -1;

	if (answer < 0)
		answer = (!isatty(STDOUT_FILENO) && !isatty(STDERR_FILENO)) ||
			 mt_text_locale_is_utf8();
	return answer;
}

void mt_text_clean(char *text, size_t text_bytes)
{
	clean(text, text_bytes, takes_utf8());
}

void mt_text_clean_utf8(const char *text, char *out, size_t out_bytes)
{
	snprintf(out, out_bytes, "%s", text);
	clean(out, out_bytes, true);
}

int mt_text_fit(const char *text, int columns)
{
	const char *at = text;
	uint32_t point;
	bool is_cut;

	while (*at) {
		size_t bytes = read_character(at, &point, &is_cut);

		columns -= bytes ? columns_of(point) : 1;
		if (columns < 0)
			break;
		at += bytes ? bytes : 1;
	}
	return (int)(at - text);
}

int mt_text_columns(const char *text)
{
	int columns = 0;
	uint32_t point;
	bool is_cut;

	while (*text) {
		bool is_escape = *text == '\033';
		size_t bytes = is_escape ? strcspn(text + 1, "m") + 1
					 : read_character(text, &point, &is_cut);

		columns += is_escape ? 0 : bytes ? columns_of(point) : 1;
		text += bytes ? bytes : 1;
		text += is_escape && *text;
	}
	return columns;
}

bool mt_text_ends_with(const char *text, const char *end)
{
	size_t text_length = strlen(text), end_length = strlen(end);

	return text_length >= end_length && strcmp(text + text_length - end_length, end) == 0;
}

const char *mt_text_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool mt_text_parse_u64(const char *text, uint64_t *out)
{
	uint64_t value = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		if (__builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return false;
	}
	*out = value;
	return true;
}

uint64_t mt_text_round_u64(double value)
{
	return value >= (double)UINT64_MAX ? UINT64_MAX : value > 0 ? (uint64_t)value : 0;
}

/* ---- mistyped words ---- */

#define WORD_MAX     40 /* a longer word resembles none */
#define DISTANCE_MAX 3u

/* Returns the edit distance, without regard to case. A swap of neighbours is one edit (optimal
 * string alignment), so three rows of the table suffice. Lengths: up to WORD_MAX. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][WORD_MAX + 1];

	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		const size_t *above = rows[(i - 1) % 3];
		const size_t *twice_above = rows[(i + 1) % 3];
		size_t *row = rows[i % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			char x = mt_format_lower(a[i - 1]);
			char y = mt_format_lower(b[j - 1]);

			row[j] = mt_min_u64(above[j - 1] + (x != y),
					    mt_min_u64(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && x == mt_format_lower(b[j - 2]) &&
			    y == mt_format_lower(a[i - 2]))
				row[j] = mt_min_u64(row[j], twice_above[j - 2] + 1);
		}
	}
	return rows[a_length % 3][b_length];
}

const char *mt_text_nearest(const char *word, const char *const *words, size_t count)
{
	const char *longer = NULL, *nearest = NULL;
	size_t length = strlen(word), best = DISTANCE_MAX + 1;

	for (size_t i = 0; length <= WORD_MAX && i < count; i++) {
		size_t known = strlen(words[i]);
		size_t distance;

		if (known > WORD_MAX)
			continue;
		if (length >= 2 && known >= length && strncasecmp(words[i], word, length) == 0 &&
		    (!longer || known < strlen(longer)))
			longer = words[i];
		distance = edit_distance(word, length, words[i], known);
		if (distance < best && distance <= mt_max_u64(known, length) / 2) {
			best = distance;
			nearest = words[i];
		}
	}
	return longer ? longer : nearest;
}

/* ---- numbers that are short enough for columns ---- */

struct mt_short_text mt_short_bytes(uint64_t bytes)
{
	static const char units[] = "KMGT";
	double value = (double)bytes / 1024;
	size_t unit = 0;

	if (!bytes)
		return mt_text_format("0");
	while (value >= 999.5 && unit + 1 < sizeof(units) - 1) {
		value /= 1024;
		unit++;
	}
	if (unit == 0 || value >= 99.95)
		return mt_text_format("%.0f%c", value < 1 ? 1 : value, units[unit]);
	return mt_text_format("%.*f%c", unit >= 2 && value < 9.995 ? 2 : 1, value, units[unit]);
}

struct mt_short_text mt_short_change(uint64_t before, uint64_t after)
{
	return mt_text_format(
		"%s%s", sign_of(before, after),
		mt_short_bytes(after > before ? after - before : before - after).text);
}

struct mt_short_text mt_short_ago(uint64_t now_ns, uint64_t then_ns)
{
	uint64_t seconds = now_ns > then_ns ? (now_ns - then_ns) / 1000000000u : 0;

	if (seconds < 60)
		return mt_text_format("%" PRIu64 "s", seconds);
	if (seconds < 3600)
		return mt_text_format("%" PRIu64 "m", seconds / 60);
	if (seconds < 86400)
		return mt_text_format("%" PRIu64 "h", seconds / 3600);
	return mt_text_format("%" PRIu64 "d", seconds / 86400);
}

struct mt_short_text mt_short_percent(double percent)
{
	return mt_text_format("%.*f",
			      percent >= 9.95    ? 0
			      : percent >= 0.095 ? 1
			      : percent > 0      ? 2
						 : 0,
			      percent);
}

/* ---- units ---- */

/* Reads the number at the start of the text. *end is the text after it, without blanks. */
static bool parse_number(const char *text, double *out, const char **end)
{
	char *after;
	double value;

	if (!isdigit((unsigned char)*text) && !(text[0] == '.' && isdigit((unsigned char)text[1])))
		return false;
	value = strtod(text, &after);
	if (!isfinite(value) || memchr(text, 'x', (size_t)(after - text)) ||
	    memchr(text, 'X', (size_t)(after - text)))
		return false;
	*out = value;
	*end = after + strspn(after, " ");
	return true;
}

/* A number with one of the units after it, whose list ends with one without a factor. */
struct unit {
	const char *name;
	double times;
};

static bool parse_with_unit(const char *text, const struct unit *units,
			    int (*compare)(const char *, const char *), double *out)
{
	const char *end;
	double value;

	if (!parse_number(text, &value, &end))
		return false;
	while (units->times > 0 && compare(end, units->name) != 0)
		units++;
	*out = value * units->times;
	return units->times > 0 && isfinite(*out);
}

bool mt_units_number(const char *text, double *out)
{
	static const struct unit units[] = {{"", 1}, {"", 0}};

	return parse_with_unit(text, units, strcmp, out);
}

bool mt_units_count(const char *text, double *out)
{
	static const struct unit units[] = {{"", 1},    {"K", 1e3},  {"M", 1e6}, {"B", 1e9},
					    {"G", 1e9}, {"T", 1e12}, {"", 0}};

	return parse_with_unit(text, units, strcasecmp, out);
}

bool mt_units_bytes(const char *text, double *out)
{
	static const char letters[] = "KMGT";
	const char *end, *letter;
	double value;

	if (!parse_number(text, &value, &end) || !*end)
		return false;
	letter = strchr(letters, toupper((unsigned char)*end));
	if (!letter || (end[1] && strcasecmp(end + 1, "b") != 0 && strcasecmp(end + 1, "ib") != 0))
		return false;
	*out = ldexp(value, 10 * (int)(letter - letters + 1));
	return isfinite(*out);
}

bool mt_units_duration(const char *text, double *out_s)
{
	static const struct unit units[] = {{"", 1},     {"ms", 1e-3}, {"s", 1},     {"m", 60},
					    {"min", 60}, {"h", 3600},  {"d", 86400}, {"", 0}};

	return parse_with_unit(text, units, strcmp, out_s);
}

bool mt_units_percent(const char *text, double *out)
{
	static const struct unit units[] = {{"", 1}, {"%", 1}, {"", 0}};

	return parse_with_unit(text, units, strcmp, out) && *out <= 100;
}
