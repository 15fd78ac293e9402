/* compat/asan.c -- programs built with GCC's AddressSanitizer, whose runtime is a shared library
 * (libasan). It ends a program in which another library was loaded before it, as LD_PRELOAD
 * does, unless this option is off. It asks this function before it checks. Our malloc then passes
 * all calls on to its malloc, which finds what it always finds. A program that defines the function
 * itself needs ASAN_OPTIONS=verify_asan_link_order=0. */
#include "sys/attr.h"

MT_EXPORT const char *__asan_default_options(void);

MT_EXPORT const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
