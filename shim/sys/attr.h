/* sys/attr.h -- compiler attributes, the debug assertion and the error enum. Owns no state. Any
 * thread may use them. Takes no lock. Includes no other header of the shim. */
#ifndef MT_SYS_ATTR_H
#define MT_SYS_ATTR_H

#include <features.h>

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

/* Every error that a function of the shim or of mtctl returns: name, text for a user. */
#define MT_ERRORS(X)                                                                               \
	X(OK, "success")                                                                           \
	X(INVALID, "not a valid value")                                                            \
	X(RANGE, "outside the allowed range")                                                      \
	X(UNKNOWN, "no such name")                                                                 \
	X(START_ONLY, "can only be set before the program starts")                                 \
	X(NOT_AVAILABLE, "not available in this process")                                          \
	X(NO_MEMORY, "out of memory")                                                              \
	X(SYSTEM, "a system call failed")                                                          \
	X(FOREIGN, "owned by another user, or not what it should be")                              \
	X(TIMEOUT, "no answer in time")                                                            \
	X(OLDER,                                                                                   \
	  "its shim is older than this mtctl and does not know this request: restart the process " \
	  "to get the new one")

enum mt_err {
#define X(name, text) MT_ERR_##name,
	MT_ERRORS(X) MT_ERR_COUNT
#undef X
};

#endif
