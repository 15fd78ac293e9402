#include "base/kernel.h"

#include <errno.h>

#define MOST_ERRNO 4095 /* what the kernel answers from -MOST_ERRNO to -1 is an error */

/* Sources: the kernel's calling conventions, syscall(2). */
static long enter(long number, long a, long b, long c, long d, long e, long f)
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

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
#error "the library is built for x86-64 and aarch64"
#endif
}

long mt_kernel_call(long number, long a, long b, long c, long d, long e, long f)
{
	long answer = enter(number, a, b, c, d, e, f);

	if ((unsigned long)answer < (unsigned long)-MOST_ERRNO)
		return answer;
	errno = (int)-answer;
	return -1;
}
