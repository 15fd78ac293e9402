/* sys/libc.h -- whose libc this process has. The library is built for glibc. A program of musl's
 * whose environment preloads it all the same must run as ever: so what musl lacks is only a weak
 * reference of ours (its loader starts no program for want of a symbol), and we serve nothing
 * there. Rank 0. */
#ifndef MT_SYS_LIBC_H
#define MT_SYS_LIBC_H

#include <gnu/libc-version.h>
#include <stdbool.h>
#include <stddef.h>

/* glibc keeps the values of the first 32 keys inside the thread: setting one cannot fail. For those
 * beyond it asks for memory, which may be refused, and which the allocator cannot have while it
 * learns of a thread. Source: PTHREAD_KEY_2NDLEVEL_SIZE. */
#define MT_LIBC_INNER_KEYS 32

extern __typeof__(gnu_get_libc_version) gnu_get_libc_version __attribute__((weak));

static inline bool mt_libc_is_glibc(void)
{
	return gnu_get_libc_version != NULL;
}

/* 36 for glibc 2.36; 0 where it cannot be told. */
static inline unsigned mt_libc_minor(void)
{
	const char *at = mt_libc_is_glibc() ? gnu_get_libc_version() : "";
	unsigned minor = 0;

	while (*at && *at != '.')
		at++;
	while (*at && *++at >= '0' && *at <= '9')
		minor = minor * 10 + (unsigned)(*at - '0');
	return minor;
}

#endif
