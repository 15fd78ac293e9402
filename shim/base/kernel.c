#include "base/kernel.h"

#include <errno.h>
#include <stdarg.h>

#define ARGUMENTS 6
#define MOST_ERRNO 4095 /* what the kernel answers from -MOST_ERRNO to -1 is an error */

/* Sources: the kernel's calling conventions, syscall(2). */
static long enter(long number, const long *a)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = a[3];
	register long r8 __asm__("r8") = a[4];
	register long r9 __asm__("r9") = a[5];
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "0"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return answer;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a[0];
	register long x1 __asm__("x1") = a[1];
	register long x2 __asm__("x2") = a[2];
	register long x3 __asm__("x3") = a[3];
	register long x4 __asm__("x4") = a[4];
	register long x5 __asm__("x5") = a[5];

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
#error "the library is built for x86-64 and aarch64"
#endif
}

/* Reads six whatever was given: what lies behind the last is what happened to be in the registers, as in libc's. */
long mt_kernel(long number, ...)
{
	long arguments[ARGUMENTS];
	long answer;
	va_list given;

	va_start(given, number);
	for (int i = 0; i < ARGUMENTS; i++)
		arguments[i] = va_arg(given, long);
	va_end(given);
	answer = enter(number, arguments);
	if ((unsigned long)answer < (unsigned long)-MOST_ERRNO)
		return answer;
	errno = (int)-answer;
	return -1;
}
