/* gpu/driver.h -- the real libcuda as a table of pointers, bound at the first use, never by
 * linking. Any thread may call, also before any constructor of ours and inside the driver's own
 * initialisation. Holds no lock over a call to the loader or the driver. The next call repeats a
 * binding that failed.
 *
 * And how a thread calls it: on the driver thread, in relaxed capture mode, uncancelled; and how
 * it waits. */
#ifndef MT_GPU_DRIVER_H
#define MT_GPU_DRIVER_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "sys/lock.h"
#include "sys/os.h"
#include "gpu/driver.def"

/* One pointer for each function of gpu/driver.def; NULL if this driver lacks it. The
 * pool knows the driver by this table alone, so that tests can pass another one. */
struct mt_driver {
#define X(name, parameters, ...) int(*name) parameters;
	MT_DRIVER_WRAPPED(X)
	MT_DRIVER_QUERIES(X)
	MT_DRIVER_CALLED(X)
#undef X
};

/* Returns the table of the libcuda.so.1 that this process has loaded; NULL while there is none.
 * Loads nothing; what it has found stays loaded. In a forked child of a process that used CUDA it
 * still returns the table, so that wrappers hand calls on to a driver that refuses them. */
const struct mt_driver *mt_driver(void);

/* The same for calls of the shim: NULL in a forked child of a process in which this ever returned a
 * table. */
const struct mt_driver *mt_driver_usable(void);

/* Returns the CUDA version of the driver as 1000 * major + 10 * minor; 0: unknown. */
int mt_driver_version(void);

/* The names in the order of the table: of wrapped functions by their index. */
#define MT_DRIVER_NAME_BYTES 56
extern const char mt_driver_names[][MT_DRIVER_NAME_BYTES] __attribute__((visibility("hidden")));

/* Returns which wrapped function this pointer of the real driver is: its index in MT_DRIVER_WRAPPED
 * (0, 1, ...), then MT_DRIVER_QUERIES; -1: none. If two names share an address it is the first:
 * a caller that knows the name compares with mt_driver_wrapped_real first. */
int mt_driver_wrapped_index(const void *real);

/* Returns the driver's own function at such an index; NULL: it has none. */
void *mt_driver_wrapped_real(int index);

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

/* Disables cancellation until mt_driver_allow_cancel with the result; these nest. Calls of the
 * driver may poll or read, which are cancellation points: a thread cancelled there would leave its
 * counts up, for which others wait. */
static inline int mt_driver_forbid_cancel(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void mt_driver_allow_cancel(int before)
{
	int disabled;

	(void)pthread_setcancelstate(before, &disabled);
}

/* Waits between two queries: not at first, then for times that grow to a quarter of a millisecond.
 * Call with 0, 1, 2, ...; no lock held. */
static inline void mt_driver_wait_round(unsigned round)
{
	struct timespec span = {.tv_nsec = round < 40 ? 20000 : 250000};

	mt_lock_check_wait("others");
	if (round < 10)
		(void)sched_yield();
	else
		/* libc's is a cancellation point */
		(void)mt_raw_syscall(SYS_nanosleep, &span, NULL);
}

/* Returns 1 if the primary context of the device is active, 0 if not, -1 if the driver does not
 * tell. */
static inline int mt_driver_primary_state(const struct mt_driver *driver, int device)
{
	unsigned int flags;
	int active = 0;

	if (!driver || !driver->cuDevicePrimaryCtxGetState ||
	    driver->cuDevicePrimaryCtxGetState(device, &flags, &active) != MT_CU_SUCCESS)
		return -1;
	return active != 0;
}

/* ---- the driver thread (gpu/thread.c), which makes the worker's calls to the driver. The worker
 * has an empty descriptor table of its own, while the driver's calls are ioctls on descriptors in
 * the program's table. So a thread of the program starts this one; it shares the program's table
 * and opens nothing. It runs one job at a time, in relaxed capture mode: its calls affect no
 * capture. ---- */

/* Starts the thread unless it runs. On a thread of the program. Returns false if it could not be
 * started: a later call tries again. */
bool mt_driver_thread_start(void);
bool mt_driver_thread_runs(void);

/* Returns whether there is a thread, and no job that still runs. Worker thread. */
bool mt_driver_thread_is_free(void);

/* Has the thread run a job and waits for it. Returns false if the thread is not free, or the job
 * has not ended within 5 s (it still may). So the job's data must be static, written only while the
 * thread is free, and read only after true. Worker thread. */
bool mt_driver_thread_run(void (*job)(void));

/* At the end of the process: no further job begins; waits up to 1 s for one in flight. Returns
 * false if it still runs: the driver takes itself down then, whatever that does to the thread. */
bool mt_driver_thread_stop(void);

void mt_driver_thread_fork_child(void);

#endif
