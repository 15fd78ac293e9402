/* sys/raw_syscall.h -- the bare system call. libc's syscall() is no door for us: its name is
 * wrapped by ourselves (compat/raw_fork.c), and by others who stand before libc and allocate in it
 * (libfaketime). No cancellation point. Any thread, any handler, before any constructor. Rank 0. */
#ifndef MT_SYS_RAW_SYSCALL_H
#define MT_SYS_RAW_SYSCALL_H

#include <sys/syscall.h>

/* As syscall(2): at most six arguments, each a number or a pointer; answers what the kernel does,
 * or -1 with errno set. */
#define mt_raw_syscall(...) MT_RAW_SYSCALL_SIX(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define MT_RAW_SYSCALL_SIX(number, a, b, c, d, e, f, ...)                                          \
	mt_raw_syscall_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),         \
			    (long)(f))

long mt_raw_syscall_call(long number, long a, long b, long c, long d, long e, long f);

#endif
