/* compat/single_thread.h -- wraps functions of libc that need a process of one thread, or equal
 * credentials in all threads: they run while the worker thread is paused. Any thread may call. Owns
 * the addresses of the next functions. Takes no lock. */
#ifndef MT_COMPAT_SINGLE_THREAD_H
#define MT_COMPAT_SINGLE_THREAD_H

/* Finds the next functions in line, if the shim is off. The wrappers may be called in any child,
 * where the loader may not be called. */
void mt_single_thread_init(void);

#endif
