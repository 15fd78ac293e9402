#include "sys/format.h"

#include <stdint.h>
#include <string.h>
#include <sys/types.h>

struct sink {
	char *out;
	size_t room; /* without the NUL */
	size_t length;
	bool is_cut;
};

struct arguments {
	va_list list; /* in a struct: a va_list that is an array cannot be passed on by address */
};

enum size { SIZE_INT, SIZE_LONG, SIZE_LONG_LONG, SIZE_SIZE };

static void put(struct sink *sink, const char *text, size_t length)
{
	size_t left = sink->room - sink->length;

	mt_assert(sink->length <= sink->room);
	if (length > left) {
		length = left;
		sink->is_cut = true;
	}
	memcpy(sink->out + sink->length, text, length);
	sink->length += length;
}

static void put_number(struct sink *sink, uint64_t value, unsigned base, bool is_negative)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value != 0);
	mt_assert(at > 0); /* 20 digits of 64 bits, and the sign */
	if (is_negative)
		digits[--at] = '-';
	put(sink, digits + at, sizeof(digits) - at);
}

static uint64_t take_unsigned(struct arguments *arguments, enum size size)
{
	switch (size) {
	case SIZE_LONG:
		return va_arg(arguments->list, unsigned long);
	case SIZE_LONG_LONG:
		return va_arg(arguments->list, unsigned long long);
	case SIZE_SIZE:
		return va_arg(arguments->list, size_t);
	case SIZE_INT:
		break;
	}
	return va_arg(arguments->list, unsigned);
}

static int64_t take_signed(struct arguments *arguments, enum size size)
{
	switch (size) {
	case SIZE_LONG:
		return va_arg(arguments->list, long);
	case SIZE_LONG_LONG:
		return va_arg(arguments->list, long long);
	case SIZE_SIZE:
		return va_arg(arguments->list, ssize_t);
	case SIZE_INT:
		break;
	}
	return va_arg(arguments->list, int);
}

static enum size read_size(const char **format)
{
	if (**format == 'z') {
		++*format;
		return SIZE_SIZE;
	}
	if (**format != 'l')
		return SIZE_INT;
	if (*++*format != 'l')
		return SIZE_LONG;
	++*format;
	return SIZE_LONG_LONG;
}

static void put_text(struct sink *sink, const char *text, size_t most)
{
	if (text == NULL)
		text = "(null)";
	put(sink, text, strnlen(text, most));
}

/* Formats one conversion; *format is after its %. Returns false for an unsupported one, with
 * nothing consumed or written. */
static bool put_conversion(struct sink *sink, const char **format, struct arguments *arguments)
{
	const char *at = *format;
	bool has_precision = at[0] == '.' && at[1] == '*';
	enum size size;
	size_t most = SIZE_MAX;
	int64_t number;
	char one;

	at += has_precision ? 2 : 0;
	size = read_size(&at);
	if (*at == '\0' || strchr("sduxc%", *at) == NULL || (*at != 's' && has_precision))
		return false;
	if (has_precision) {
		number = va_arg(arguments->list, int);
		/* negative: no precision, as for printf(3) */
		most = number < 0 ? SIZE_MAX : (size_t)number;
	}
	switch (*at) {
	case 's':
		put_text(sink, va_arg(arguments->list, const char *), most);
		break;
	case 'd':
		number = take_signed(arguments, size);
		put_number(sink, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10,
			   number < 0);
		break;
	case 'u':
	case 'x':
		put_number(sink, take_unsigned(arguments, size), *at == 'u' ? 10 : 16, false);
		break;
	case 'c':
		one = (char)va_arg(arguments->list, int);
		put(sink, &one, 1);
		break;
	default:
		put(sink, "%", 1);
	}
	*format = at + 1;
	return true;
}

static void put_format(struct sink *sink, const char *format, struct arguments *arguments)
{
	const char *percent;

	/* strchr, which the program's start has in memory already; strcspn costs a page fault */
	while ((percent = strchr(format, '%'))) {
		put(sink, format, (size_t)(percent - format));
		format = percent + 1;
		if (!put_conversion(sink, &format, arguments)) {
			/* Its argument is unknown, so nothing after it can be formatted either. */
			format = percent;
			break;
		}
	}
	put(sink, format, strlen(format));
}

size_t mt_format_list(char *out, size_t out_bytes, const char *format, va_list list,
		      bool *out_is_cut)
{
	struct sink sink = {.out = out, .room = out_bytes - 1};
	struct arguments arguments;

	*out_is_cut = out_bytes == 0;
	if (out_bytes == 0)
		return 0;
	va_copy(arguments.list, list);
	put_format(&sink, format, &arguments);
	va_end(arguments.list);
	out[sink.length] = '\0';
	*out_is_cut = sink.is_cut;
	return sink.length;
}

size_t mt_format(char *out, size_t out_bytes, const char *format, ...)
{
	bool is_cut;
	va_list list;
	size_t length;

	va_start(list, format);
	length = mt_format_list(out, out_bytes, format, list, &is_cut);
	va_end(list);
	return length;
}
