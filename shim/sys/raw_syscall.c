#include "sys/raw_syscall.h"

#include <errno.h>

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
