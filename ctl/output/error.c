#include "ctl/output/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/output/text.h"

#define ROOM_MIN 16u /* a power of two */

const char *mt_error_text(uint64_t error)
{
	static const char *const texts[] = {
#define X(name, text) text,
		MT_ERRORS(X)
#undef X
	};

	return error < MT_ERR_COUNT ? texts[error] : "an error that this mtctl does not know";
}

enum mt_err mt_error_because(struct mt_error_reason *why, enum mt_err error, const char *format,
			     ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why->text, sizeof(why->text), format, arguments);
	va_end(arguments);
	mt_text_clean(why->text, sizeof(why->text));
	why->lacks_files = false;
	return error;
}

enum mt_err mt_error_because_version(struct mt_error_reason *why, const char *file,
				     uint32_t version)
{
	return mt_error_because(
		why, MT_ERR_INVALID,
		"refused: the %s was made by another version (%u): restart the process", file,
		version);
}

void mt_error_say(const char *format, ...)
{
	va_list arguments;

	fflush(stdout); /* keeps the order of the two streams on a terminal */
	fputs("mtctl: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

enum mt_exit mt_error_fail(enum mt_exit code, const struct mt_error_reason *why)
{
	mt_error_say("%s", why->text);
	return code;
}

enum mt_exit mt_error_exit(enum mt_err error)
{
	switch (error) {
	case MT_ERR_OK:
		return MT_EXIT_OK;
	case MT_ERR_NOT_AVAILABLE:
		return MT_EXIT_NOTHING;
	case MT_ERR_UNKNOWN:
		return MT_EXIT_NO_PROCESS;
	case MT_ERR_TIMEOUT:
		return MT_EXIT_NO_ANSWER;
	default:
		return MT_EXIT_USAGE;
	}
}

void *mt_error_check_memory(void *memory)
{
	if (!memory) {
		mt_error_say("out of memory");
		exit(MT_EXIT_USAGE);
	}
	return memory;
}

void *mt_error_make_room(void *list, size_t count, size_t bytes)
{
	if (count && (count < ROOM_MIN || (count & (count - 1))))
		return list;
	return mt_error_check_memory(realloc(list, (count ? count * 2 : ROOM_MIN) * bytes));
}
