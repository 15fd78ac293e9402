/* compat/single_thread.h -- what core/init.c asks of compat/single_thread.c; its functions are
 * those of libc that it stands before. */
#ifndef MT_COMPAT_SINGLE_THREAD_H
#define MT_COMPAT_SINGLE_THREAD_H

/* Where the shim is off: finds the functions behind ours. They may be called in any child, but the
 * loader may not be asked in any. */
void mt_single_thread_init(void);

#endif
