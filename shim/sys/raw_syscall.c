/* sys/raw_syscall.c -- the system calls of sys/os.h that take libc's errno. A file of its own: the
 * fault tests replace the function at the linker, which works only across files. */
#include <errno.h>

#include "sys/os.h"

/* a result from -ERRNO_MAX to -1 is an error */
#define ERRNO_MAX 4095

long mt_raw_syscall_call(long number, long a, long b, long c, long d, long e, long f)
{
	long answer = mt_raw_syscall_asm(number, a, b, c, d, e, f);

	if ((unsigned long)answer < (unsigned long)-ERRNO_MAX)
		return answer;
	errno = (int)-answer;
	return -1;
}
