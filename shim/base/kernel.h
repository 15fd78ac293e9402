/* base/kernel.h -- the bare system call. libc's syscall() is no door for us: its name is wrapped by ourselves
 * (entry/copy.c), and by others who stand before libc and allocate in it (libfaketime). No cancellation point.
 * Any thread, any handler, before any constructor. Rank 0. */
#ifndef MT_KERNEL_H
#define MT_KERNEL_H

#include <sys/syscall.h>

/* As syscall(2): at most six arguments, each a long or a pointer; answers what the kernel does, or -1 with errno set. */
long mt_kernel(long number, ...);

#endif
