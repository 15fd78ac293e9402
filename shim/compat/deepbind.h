/* compat/deepbind.h -- wraps dlopen to leave out the flag RTLD_DEEPBIND over the embedded
 * allocator. A library opened with it binds malloc to libc's, past every preloaded allocator.
 * libc's strdup and getline still return blocks of the preloaded one, and the library's first free
 * of such a block crashes (PHP opens its modules so). Logged at level info. MT_ALLOCATOR=system
 * keeps the flag, since all blocks are libc's there. Any thread may call. Owns the address of the
 * next dlopen. Takes no lock. Other calls jump to the next dlopen with the caller's return address,
 * by which the loader finds namespace and search path (deepbind_ARCH.S). */
#ifndef MT_COMPAT_DEEPBIND_H
#define MT_COMPAT_DEEPBIND_H

/* Returns the mode to open with, for a mode that has RTLD_DEEPBIND. Keeps errno. */
int mt_deepbind_mode(int mode);

/* Finds the next dlopen in line. The word that deepbind_ARCH.S reads stays NULL if there is
 * none. */
void mt_deepbind_init(void);

#endif
