/* compat/deepbind.h -- dlopen, wrapped for one flag. A library that is opened with RTLD_DEEPBIND
 * binds malloc to libc's, past whoever was preloaded, while libc's own strdup, getline and the like
 * hand it blocks of ours: the first free of one kills the program (so it is with any preloaded
 * allocator; sanitizers refuse such a dlopen). So over the embedded allocator the flag is left out,
 * which a line at level info tells. MT_ALLOCATOR=system keeps it: there all blocks are libc's.
 * Everything else is a jump to the next dlopen, with the caller's return address, by which the
 * loader finds namespace and search path (open_ARCH.S). */
#ifndef MT_COMPAT_DEEPBIND_H
#define MT_COMPAT_DEEPBIND_H

/* The mode with which a library is to be opened instead of one that has RTLD_DEEPBIND. Keeps errno.
 */
int mt_deepbind_mode(int mode);

/* Finds the next dlopen in line; the word that open_ARCH.S reads stays empty where there is none.
 */
void mt_deepbind_init(void);

#endif
