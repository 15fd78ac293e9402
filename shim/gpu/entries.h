/* gpu/entries.h -- the wrappers of the driver's functions, one for each row of MT_DRIVER_WRAPPED.
 * Whoever writes one includes this first and defines `int cuMemAlloc_v2(uint64_t *dptr, size_t
 * bytes)` as usual, without MT_EXPORT.
 *
 * The symbol behind that name is mt_entry_cuMemAlloc_v2, hidden. What programs link to is a jump to
 * it of the driver's own name (gpu/lookup_stubs.S), in the hidden version MTSHIM: the loader binds
 * a program's unversioned references to it, but dlsym(RTLD_DEFAULT) passes over it, and so says
 * what it says without the shim, a failure's text included. A caller's pointer is that of the jump,
 * by whichever road it came; mt_lookup_entry gives it.
 *
 * Each may be called before mt_driver() has an answer (a program's weak reference is bound to us
 * even if no libcuda is loaded) and hands back what the driver would then say: it has no driver to
 * ask. */
#ifndef MT_GPU_ENTRIES_H
#define MT_GPU_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/driver_abi.h"
#include "gpu/driver_functions.def"

#define X(name, parameters, ...)                                                                   \
	int name parameters __asm__("mt_entry_" #name) __attribute__((visibility("hidden")));
MT_DRIVER_WRAPPED(X)
/* gpu/lookup.c: the driver's own resolver in both ABIs. */
MT_DRIVER_QUERIES(X)
#undef X

#endif
