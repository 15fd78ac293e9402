/* sys/raw_syscall.h -- system calls without libc's syscall(). The shim exports that name
 * (compat/raw_fork.c), and libraries such as libfaketime interpose it and allocate. Any thread and
 * any signal handler may call, before any constructor. Takes no lock, owns no state, is never a
 * cancellation point. */
#ifndef MT_SYS_RAW_SYSCALL_H
#define MT_SYS_RAW_SYSCALL_H

#include <sys/syscall.h>

/* Numbers of newer calls are __NR_name: the kernel's headers have them before libc's SYS_name. */

/* Makes a system call with up to six arguments, each a number or a pointer. Returns its result, or
 * -1 with errno set, as syscall(2). */
#define mt_raw_syscall(...) MT_RAW_SYSCALL_SIX(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define MT_RAW_SYSCALL_SIX(number, a, b, c, d, e, f, ...)                                          \
	mt_raw_syscall_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),         \
			    (long)(f))

long mt_raw_syscall_call(long number, long a, long b, long c, long d, long e, long f);

#endif
