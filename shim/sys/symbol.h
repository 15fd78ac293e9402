/* sys/symbol.h -- dlsym for our own use: libc's, asked as if by us, so that RTLD_NEXT means "after
 * libmtshim.so". Another preloaded library's dlsym is passed by: one that calls libc's instead of
 * jumping to it would make itself the asker, and what comes after it may be ourselves again, for
 * ever. Any thread; as safe as dlsym. Rank 0. */
#ifndef MT_SYS_SYMBOL_H
#define MT_SYS_SYMBOL_H

/* handle: RTLD_DEFAULT, RTLD_NEXT, or what dlopen gave. NULL where there is no such symbol. */
void *mt_symbol(void *handle, const char *name);

/* Once, from the constructor: another library's dlsym that comes after ours in line (a vGPU
 * limiter's, say) is from now on the one that the program's calls, and our binding of the driver,
 * are handed on to: as they would be without us. */
void mt_symbol_use_next_dlsym(void);

#endif
