/* heap/dlsym.h -- which names dlsym and dlvsym answer with a function of ours: the driver's
 * (gpu/lookup.h), and those of the heap family if a handle leads to libc's own. A program may
 * ask libc's handle for malloc and give the block to the free that it is linked to (Python's
 * ctypes, P/Invoke, foreign functions of any language), or the other way round. */
#ifndef MT_HEAP_DLSYM_H
#define MT_HEAP_DLSYM_H

#pragma GCC visibility push(hidden)

/* Called by dlsym_ARCH.S for every handle but RTLD_NEXT; version is NULL for dlsym. The function to
 * answer with, or NULL for "let the real one answer its caller". Keeps errno. Safe before our
 * relocation and inside the start of a sanitizer's runtime. The first question for a name of the
 * heap family starts the heap, as a call of malloc at that moment would. */
void *mt_dlsym_replace(void *handle, const char *name, const char *version, const void *caller);

/* gpu/lookup.c has it, heap/no_driver.c if gpu/ is not built: the answer for names that begin
 * with "cu". */
void *mt_dlsym_replace_driver(void *handle, const char *name, const char *version,
			      const void *caller);

#pragma GCC visibility pop

#endif
