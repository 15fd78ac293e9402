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

/* ---- raw syscall asm ---- */

/* The system call instruction, without errno and without a relocation, for code that runs before
 * the loader has relocated this library. Other code uses sys/raw_syscall.h. Any thread may call.
 * Takes no lock, owns no state. */

/* Makes a system call. Returns its result, an error as the negative errno. Source: syscall(2). */
static inline long mt_raw_syscall_asm(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return answer;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "the library is built for x86-64 and aarch64"
#endif
}

#endif
