/* gpu/lookup.h -- the replies of dlsym, dlvsym and cuGetProcAddress for functions of the driver:
 * which of them the shim wraps, and by which pointer. An index is that of mt_driver_wrapped_index.
 * Any thread, as early as dlsym may be called; takes no lock, allocates and initialises nothing. */
#ifndef MT_GPU_LOOKUP_H
#define MT_GPU_LOOKUP_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Returns false with MT_CUDA=off, and where the shim does nothing in this process: every reply
 * stays the driver's own. */
bool mt_lookup_is_on(void);

/* Returns the index of exactly this symbol of libcuda; -1: none. */
int mt_lookup_index(const char *symbol);

/* Returns the index of the symbol that cuGetProcAddress means by a name without suffix, a version
 * and flags; -1: none, or a version newer than the table. */
int mt_lookup_index_of_version(const char *name, int version, unsigned long long flags);

/* Returns the exported wrapper for a pointer of the driver that was asked for as the symbol at
 * index (-1: another name); NULL: the pointer is no function that we wrap. */
void *mt_lookup_wrapper(const void *real, int index);

/* Returns the exported wrapper at an index. */
void *mt_lookup_entry(int index);

/* For heap/dlsym.c: returns the reply for a name that begins with "cu"; NULL: that of the real
 * dlsym. */
void *mt_dlsym_replace_driver(void *handle, const char *name, const char *version,
			      const void *caller);

#pragma GCC visibility pop

#endif
