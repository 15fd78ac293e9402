/* sys/attr.h -- compiler attributes and the error enum. Included by everything, includes nothing of
 * ours but a table. */
#ifndef MT_SYS_ATTR_H
#define MT_SYS_ATTR_H

#include <features.h>

#include "sys/error.def"

#ifndef __GLIBC__
#error "libmtshim.so is for glibc: with musl or another libc neither the library nor programs under it are supported"
#endif

#define mt_likely(x)    __builtin_expect(!!(x), 1)
#define mt_unlikely(x)  __builtin_expect(!!(x), 0)
#define MT_COLD         __attribute__((cold, noinline))
#define MT_EXPORT       __attribute__((visibility("default")))
#define MT_TLS          __thread __attribute__((tls_model("initial-exec")))
#define MT_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Invariants, in debug builds only: what a program or the kernel can cause is checked at run time
 * instead. */
#ifdef MT_DEBUG
#define mt_assert(x) ((x) ? (void)0 : __builtin_trap())
#else
#define mt_assert(x) ((void)0)
#endif

enum mt_err {
#define X(name, text) MT_ERR_##name,
	MT_ERRORS(X) MT_ERR_COUNT
#undef X
};

#endif
