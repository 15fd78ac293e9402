/* gpu/driver.h -- the real libcuda as a table of pointers, bound at the first use, never by
 * linking. Any thread may call, also before any constructor of ours and inside the driver's own
 * initialisation; no lock of ours is held over a call into the loader or the driver. A failed
 * binding is tried again by the next call. */
#ifndef MT_GPU_DRIVER_H
#define MT_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver_abi.h"
#include "gpu/driver_functions.def"

/* One pointer for each function of functions.def; NULL where this driver does not have it. The pool
 * knows nothing of the driver but such a table, so that tests can hand it another. */
struct mt_driver {
#define X(name, parameters, ...) int(*name) parameters;
	MT_DRIVER_FUNCTIONS(X)
	MT_DRIVER_QUERIES(X)
#undef X
};

/* The table of the libcuda.so.1 that this process has loaded; NULL as long as none is. Loads
 * nothing by itself; what it has found stays loaded. A forked child of a process that has used CUDA
 * gets NULL from mt_driver_usable and the real table from here, so that entries can hand calls on
 * to a driver that then refuses them itself. */
const struct mt_driver *mt_driver(void);

/* The same, but NULL in a forked child of a process in which this was ever answered (no CUDA call
 * of ours may be made there) and once the driver has said CUDA_ERROR_DEINITIALIZED. */
const struct mt_driver *mt_driver_usable(void);

/* CUDA version of the driver as 1000 * major + 10 * minor, 0 while unknown. */
int mt_driver_version(void);

/* Pure address look-up for entry/lookup: which wrapped function this pointer of the real driver is,
 * as its place in MT_DRIVER_WRAPPED (0, 1, ...) and, behind those, MT_DRIVER_QUERIES, or -1. Where
 * two names share an address (aliases of one ABI) it is the first; a caller that knows the name
 * compares with mt_driver_wrapped_real first. */
int mt_driver_wrapped_index(const void *real);

/* The driver's own function at such a place; NULL where it has none. */
void *mt_driver_wrapped_real(int index);

/* A result of the driver that ends our calls: remembers CUDA_ERROR_DEINITIALIZED. */
void mt_driver_note(int result);

void mt_driver_fork_child(void);

#endif
