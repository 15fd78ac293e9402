/* sys/format.h -- formats text as snprintf(3) does, for a subset of its conversions: %s %d %u %x %c
 * %%, the modifiers l ll z, and %.*s; no widths. Any thread may call, also inside malloc and in
 * signal handlers. Takes no lock, keeps no state. Never allocates and never reads the locale;
 * libc's functions may do both. */
#ifndef MT_SYS_FORMAT_H
#define MT_SYS_FORMAT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "sys/attr.h"

/* Writes up to out_bytes - 1 bytes and a NUL to out; nothing if out_bytes is 0. Returns the
 * length written, without the NUL. */
size_t mt_format(char *out, size_t out_bytes, const char *format, ...) MT_PRINTF(3, 4);

/* As mt_format, from an argument list, which it does not consume. *out_is_cut: set to whether the
 * text did not fit. */
size_t mt_format_list(char *out, size_t out_bytes, const char *format, va_list list,
		      bool *out_is_cut);

/* ASCII only: tolower(3) and toupper(3) read the locale. */
static inline char mt_format_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline char mt_format_upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

#endif
