#include "ctl/output/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sys/nearest_word.h"

#define MB          1048576.0
#define THOUSANDTHS "_thousandths"

struct mt_short_text mt_text_bytes(uint64_t bytes)
{
	struct mt_short_text result;

	if (bytes >= (uint64_t)10 << 30)
		snprintf(result.text, sizeof(result.text), "%.1f GB", (double)bytes / MB / 1024);
	else
		snprintf(result.text, sizeof(result.text), "%.1f MB", (double)bytes / MB);
	return result;
}

struct mt_short_text mt_text_signed_bytes(int64_t bytes)
{
	uint64_t value = bytes < 0 ? (uint64_t)-bytes : (uint64_t)bytes;
	struct mt_short_text result;

	if (value < UINT64_C(1) << 20)
		snprintf(result.text, sizeof(result.text), "%s%.1f kB", bytes < 0 ? "-" : "",
			 (double)value / 1024);
	else
		snprintf(result.text, sizeof(result.text), "%s%.60s", bytes < 0 ? "-" : "",
			 mt_text_bytes(value).text);
	return result;
}

struct mt_short_text mt_text_change(uint64_t from, uint64_t to)
{
	struct mt_short_text result, size = mt_text_bytes(to > from ? to - from : from - to);

	snprintf(result.text, sizeof(result.text), "%s%.40s",
		 to > from   ? "+"
		 : to < from ? "-"
			     : "",
		 size.text);
	return result;
}

struct mt_short_text mt_text_ns(uint64_t ns)
{
	struct mt_short_text result;

	if (ns >= 10000000000u)
		snprintf(result.text, sizeof(result.text), "%.1f s", (double)ns / 1e9);
	else
		snprintf(result.text, sizeof(result.text), "%.1f ms", (double)ns / 1e6);
	return result;
}

struct mt_short_text mt_text_duration(double seconds)
{
	static const struct {
		const char *unit;
		double seconds, from;
	} units[] = {{"h", 3600, 7200}, {"min", 60, 120}, {"s", 1, 1}, {"ms", 1e-3, 1e-3}};
	struct mt_short_text result = {"0 s"};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (seconds >= units[i].from) {
			snprintf(result.text, sizeof(result.text), "%.4g %s",
				 seconds / units[i].seconds, units[i].unit);
			break;
		}
	return result;
}

struct mt_short_text mt_text_span(uint64_t ns)
{
	static const struct {
		const char *unit;
		uint64_t seconds;
	} units[] = {{"days", 86400}, {"h", 3600}, {"min", 60}};
	uint64_t seconds = ns / 1000000000u;
	struct mt_short_text result;

	snprintf(result.text, sizeof(result.text), "%" PRIu64 " s", seconds);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (seconds < 2 * units[i].seconds)
			continue;
		snprintf(result.text, sizeof(result.text), "%" PRIu64 " %s",
			 seconds / units[i].seconds, units[i].unit);
		break;
	}
	return result;
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
	struct mt_short_text result;

	snprintf(result.text, sizeof(result.text), "%.27s %s", mt_text_count(count).text,
		 count == 1 ? one : more);
	return result;
}

struct mt_short_text mt_text_clock(uint64_t realtime_ns)
{
	struct mt_short_text result = {"?"};
	time_t seconds = (time_t)(realtime_ns / 1000000000u);
	struct tm broken;
	size_t used;

	if (localtime_r(&seconds, &broken)) {
		used = strftime(result.text, sizeof(result.text), "%H:%M:%S", &broken);
		snprintf(result.text + used, sizeof(result.text) - used, ".%03u",
			 (unsigned)(realtime_ns % 1000000000u / 1000000u));
	}
	return result;
}

void mt_text_clean(char *text, size_t text_bytes)
{
	size_t i;

	for (i = 0; i + 1 < text_bytes && text[i]; i++)
		if (text[i] < 0x20 || text[i] >= 0x7f)
			text[i] = '?';
	if (text_bytes)
		memset(text + i, 0, text_bytes - i);
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

const char *mt_text_nearest(const char *word, const char *const *words, size_t count)
{
	return mt_nearest_word(word, strlen(word), words, count);
}

/* ---- numbers that are short enough for columns ---- */

struct mt_short_text mt_short_bytes(uint64_t bytes)
{
	static const char units[] = "KMGT";
	struct mt_short_text figure = {"0"};
	double value = (double)bytes / 1024;
	size_t unit = 0;

	if (!bytes)
		return figure;
	while (value >= 999.5 && unit + 1 < sizeof(units) - 1) {
		value /= 1024;
		unit++;
	}
	if (unit == 0 || value >= 99.95)
		snprintf(figure.text, sizeof(figure.text), "%.0f%c", value < 1 ? 1 : value,
			 units[unit]);
	else if (unit >= 2 && value < 9.995)
		snprintf(figure.text, sizeof(figure.text), "%.2f%c", value, units[unit]);
	else
		snprintf(figure.text, sizeof(figure.text), "%.1f%c", value, units[unit]);
	return figure;
}

struct mt_short_text mt_short_change(uint64_t before, uint64_t after)
{
	struct mt_short_text figure,
		size = mt_short_bytes(after > before ? after - before : before - after);

	snprintf(figure.text, sizeof(figure.text), "%s%.40s",
		 after > before   ? "+"
		 : after < before ? "-"
				  : "",
		 size.text);
	return figure;
}

struct mt_short_text mt_short_ago(uint64_t now_ns, uint64_t then_ns)
{
	uint64_t seconds = now_ns > then_ns ? (now_ns - then_ns) / 1000000000u : 0;
	struct mt_short_text figure;

	if (seconds < 60)
		snprintf(figure.text, sizeof(figure.text), "%" PRIu64 "s", seconds);
	else if (seconds < 3600)
		snprintf(figure.text, sizeof(figure.text), "%" PRIu64 "m", seconds / 60);
	else if (seconds < 86400)
		snprintf(figure.text, sizeof(figure.text), "%" PRIu64 "h", seconds / 3600);
	else
		snprintf(figure.text, sizeof(figure.text), "%" PRIu64 "d", seconds / 86400);
	return figure;
}

struct mt_short_text mt_short_percent(double percent)
{
	struct mt_short_text figure;

	snprintf(figure.text, sizeof(figure.text), "%.*f",
		 percent >= 9.95    ? 0
		 : percent >= 0.095 ? 1
		 : percent > 0      ? 2
				    : 0,
		 percent);
	return figure;
}
