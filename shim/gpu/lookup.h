/* gpu/lookup.h -- how a program's question for a function of the driver is answered: which of them
 * we stand in for, and by which pointer. Places are those of mt_driver_wrapped_index. No lock, no
 * allocation, nothing is initialised here. */
#ifndef MT_GPU_LOOKUP_H
#define MT_GPU_LOOKUP_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* False with MT_CUDA=off, and when the shim does nothing in this process: every answer stays the
 * driver's own. */
bool mt_lookup_is_on(void);

/* The place of exactly this symbol of libcuda, or -1. */
int mt_lookup_index(const char *symbol);

/* The place that cuGetProcAddress means by a name without suffix, a version and flags; -1 if none,
 * or if the version is newer than what was known when this was written. */
int mt_lookup_index_of_version(const char *name, int version, unsigned long long flags);

/* What the program gets for a pointer of the driver, asked for as the symbol at index (-1: some
 * other name): the exported wrapper, or NULL where the pointer is no function that we wrap. */
void *mt_lookup_wrapper(const void *real, int index);

/* The exported wrapper at a place. */
void *mt_lookup_entry(int index);

/* For heap/dlsym.c: the answer for names that begin with "cu". */
void *mt_dlsym_replace_driver(void *handle, const char *name, const char *version,
			      const void *caller);

#pragma GCC visibility pop

#endif
