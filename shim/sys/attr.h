/* sys/attr.h -- compiler attributes, the debug assertion and the error enum. Owns no state. Any
 * thread may use them. Takes no lock. Includes no other header of the shim but a table. */
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

/* Checks an invariant in debug builds only. Errors that a program or the kernel can cause are
 * checked at run time instead. */
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
