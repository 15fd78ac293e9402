/* slow_wake.c -- the shim with a long moment in the middle of its change to jemalloc: the range of
 * libc's blocks is frozen, and libc's functions still serve. */
#include <unistd.h>

#include "heap/backend.h"

void __real_mt_backend_use_jemalloc(void);
void __wrap_mt_backend_use_jemalloc(void);

void __wrap_mt_backend_use_jemalloc(void)
{
	usleep(300000);
	__real_mt_backend_use_jemalloc();
}
