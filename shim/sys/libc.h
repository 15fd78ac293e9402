/* sys/libc.h -- which libc this process runs on. The library is built for glibc; a musl program
 * that preloads it must still run, so functions that musl lacks are weak references and the shim
 * stays off there. Any thread may call. Takes no lock, keeps no state, never allocates. */
#ifndef MT_SYS_LIBC_H
#define MT_SYS_LIBC_H

#include <gnu/libc-version.h>
#include <stdbool.h>
#include <stddef.h>

/* Number of pthread keys whose values glibc stores inside the thread descriptor, so that
 * pthread_setspecific cannot fail for them. For other keys glibc allocates memory, which the
 * allocator cannot serve while it registers a thread. Source: PTHREAD_KEY_2NDLEVEL_SIZE of
 * glibc. */
#define MT_LIBC_INNER_KEYS 32

extern __typeof__(gnu_get_libc_version) gnu_get_libc_version __attribute__((weak));

static inline bool mt_libc_is_glibc(void)
{
	return gnu_get_libc_version != NULL;
}

/* Returns the minor version: 36 for glibc 2.36; 0 where it is unknown. */
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
