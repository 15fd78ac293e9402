/* gpu/driver.h -- the real libcuda as a table of pointers, bound at the first use, never by
 * linking. Any thread may call, also before any constructor of ours and inside the driver's own
 * initialisation. Holds no lock over a call to the loader or the driver. The next call repeats a
 * binding that failed. */
#ifndef MT_GPU_DRIVER_H
#define MT_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver_abi.h"
#include "gpu/driver_functions.def"

/* One pointer for each function of gpu/driver_functions.def; NULL if this driver lacks it. The
 * pool knows the driver by this table alone, so that tests can pass another one. */
struct mt_driver {
#define X(name, parameters, ...) int(*name) parameters;
	MT_DRIVER_FUNCTIONS(X)
	MT_DRIVER_QUERIES(X)
#undef X
};

/* Returns the table of the libcuda.so.1 that this process has loaded; NULL while there is none.
 * Loads nothing; what it has found stays loaded. In a forked child of a process that used CUDA it
 * still returns the table, so that wrappers hand calls on to a driver that refuses them. */
const struct mt_driver *mt_driver(void);

/* The same for calls of the shim: NULL in a forked child of a process in which this ever returned a
 * table, and after CUDA_ERROR_DEINITIALIZED. */
const struct mt_driver *mt_driver_usable(void);

/* Returns the CUDA version of the driver as 1000 * major + 10 * minor; 0: unknown. */
int mt_driver_version(void);

/* Returns which wrapped function this pointer of the real driver is: its index in MT_DRIVER_WRAPPED
 * (0, 1, ...), then MT_DRIVER_QUERIES; -1: none. If two names share an address it is the first:
 * a caller that knows the name compares with mt_driver_wrapped_real first. */
int mt_driver_wrapped_index(const void *real);

/* Returns the driver's own function at such an index; NULL: it has none. */
void *mt_driver_wrapped_real(int index);

/* Notes a result of the driver: CUDA_ERROR_DEINITIALIZED ends the shim's calls. */
void mt_driver_note(int result);

/* Sets out to where the device is on the PCI bus, "0000:3b:00.0"; "": unknown. */
#define MT_PCI_BYTES 16 /* as in struct mt_rescue_request */
void mt_driver_read_pci(int device, char out[MT_PCI_BYTES]);

void mt_driver_fork_child(void);

/* Puts the calling thread into relaxed capture mode, in which its calls affect no capture, except
 * for recording. Returns the mode before, for mt_driver_restore; MT_DRIVER_NOT_RELAXED: the driver
 * refused, or driver is NULL. */
#define MT_DRIVER_NOT_RELAXED (-1)
static inline int mt_driver_relax(const struct mt_driver *driver)
{
	int mode = MT_CU_CAPTURE_RELAXED;

	if (!driver || !driver->cuThreadExchangeStreamCaptureMode ||
	    driver->cuThreadExchangeStreamCaptureMode(&mode) != MT_CU_SUCCESS)
		return MT_DRIVER_NOT_RELAXED;
	return mode;
}

static inline void mt_driver_restore(const struct mt_driver *driver, int mode)
{
	if (driver && mode != MT_DRIVER_NOT_RELAXED)
		(void)driver->cuThreadExchangeStreamCaptureMode(&mode);
}

#endif
