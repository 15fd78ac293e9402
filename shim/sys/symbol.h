/* sys/symbol.h -- dlsym for the shim's own lookups: libc's function with the shim as the caller,
 * so that RTLD_NEXT means "after libmtshim.so". Owns one pointer to libc's dlsym. Any thread may
 * call when dlsym(3) may be called; no lock of the shim may be held. Enters the gate of
 * sys/loader.h. Skips another preloaded library's dlsym: one that calls libc's instead of jumping
 * to it becomes the caller, and RTLD_NEXT may then find the shim again, without end. */
#ifndef MT_SYS_SYMBOL_H
#define MT_SYS_SYMBOL_H

/* Returns the symbol `name`, or NULL if there is none. handle: RTLD_DEFAULT, RTLD_NEXT, or a
 * result of dlopen. */
void *mt_symbol(void *handle, const char *name);

/* Returns the symbol `name` of the library or program that defines `anchor`, or NULL. Unlike dlsym
 * it never waits for a constructor: that runs under the loader's lock. Does not find a library that
 * another thread is loading and has not relocated yet. In a forked child, and before glibc 2.35
 * without _dl_find_object, this is mt_symbol(RTLD_DEFAULT, name). */
void *mt_symbol_beside(const char *anchor, const char *name);

/* Forwards the program's dlsym calls, and the binding of the CUDA driver, to another library's
 * dlsym if one follows the shim in load order (a vGPU limiter). Called once, from the
 * constructor. */
void mt_symbol_use_next_dlsym(void);

#endif
