/* sys/format.h -- a formatter that allocates nothing and does not ask the locale; libc's may do
 * both. Understands %s %d %u %x %c %%, the modifiers l ll z, and %.*s; no widths. Any thread, also
 * inside malloc and in signal handlers. */
#ifndef MT_SYS_FORMAT_H
#define MT_SYS_FORMAT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "sys/attr.h"

/* Writes up to out_bytes - 1 bytes and a NUL; nothing where out_bytes is 0. Returns the length
 * written, without the NUL. */
size_t mt_format(char *out, size_t out_bytes, const char *format, ...) MT_PRINTF(3, 4);

/* The same from a list, which stays as it is. *out_is_cut: the text did not fit. */
size_t mt_format_list(char *out, size_t out_bytes, const char *format, va_list list,
		      bool *out_is_cut);

#endif
