/* gpu/lookup.h -- the wrappers of the driver's functions, and the replies of dlsym, dlvsym and
 * cuGetProcAddress for them. An index is that of mt_driver_wrapped_index. Any thread, as early as
 * dlsym may be called; takes no lock, allocates and initialises nothing.
 *
 * There is a wrapper for each row of MT_DRIVER_WRAPPED. A file that defines one includes this
 * first and writes `int cuMemAlloc_v2(uint64_t *dptr, size_t bytes)` as usual, without MT_EXPORT.
 * The symbol behind that name is mt_entry_cuMemAlloc_v2, hidden. Programs link to a jump to it of
 * the driver's own name (gpu/lookup_stubs.S), in the hidden version MTSHIM. The loader binds a
 * program's unversioned references to that version, but dlsym(RTLD_DEFAULT) passes over it and
 * replies as without the shim, the text of a failure included. A program's pointer is always that
 * of the jump; mt_lookup_entry gives it.
 *
 * A wrapper may be called before mt_driver() has a table: a program's weak reference is bound to us
 * even if no libcuda is loaded. It then returns MT_CU_NOT_INITIALIZED. */
#ifndef MT_GPU_LOOKUP_H
#define MT_GPU_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.def"

#define X(name, parameters, ...)                                                                   \
	int name parameters __asm__("mt_entry_" #name) __attribute__((visibility("hidden")));
MT_DRIVER_WRAPPED(X)
MT_DRIVER_QUERIES(X)
#undef X

/* ---- gpu/component.c: the start of the pool at the first call of a wrapper ---- */

/* Starts the pool, the thread that calls the driver, and the worker. Returns whether the wrappers
 * are to do their work; false (MT_CUDA=off, the shim is off, no driver yet, a process that runs on
 * another's memory): the call is handed on as it is. Cheap after the first time. Keeps errno. A
 * thread of the program; never from inside dlsym. */
bool mt_wrapper_is_on(void);

/* ---- gpu/lookup.c ---- */

#pragma GCC visibility push(hidden)

/* Returns the index of exactly this symbol of libcuda; -1: none. */
int mt_lookup_index(const char *symbol);

/* Returns the exported wrapper at an index. */
void *mt_lookup_entry(int index);

/* For heap/dlsym.c: returns the reply for a name that begins with "cu"; NULL: that of the real
 * dlsym. */
void *mt_dlsym_replace_driver(void *handle, const char *name, const char *version,
			      const void *caller);

#pragma GCC visibility pop

#endif
