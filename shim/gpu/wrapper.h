/* gpu/wrapper.h -- what the wrappers of gpu/entries_*.c share, and the start of the device pool at
 * their first call. wrapper.c owns the state of the start; it takes no lock, and holds none over a
 * call to the loader or driver.
 *
 * Threads of the program. A wrapper hands its call on as it is if the shim does nothing
 * (mt_wrapper_is_on), keeps errno, and hands NULL outputs to the driver. It keeps no state and no
 * policy, and holds no lock over a call to the driver but the capture gate. */
#ifndef MT_GPU_WRAPPER_H
#define MT_GPU_WRAPPER_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/attr.h"
#include "gpu/driver.h"
#include "gpu/lookup.h"
#include "gpu/context.h"
#include "gpu/pool.h"

/* Starts the pool, the thread that calls the driver, and the worker. Returns whether the wrappers
 * are to do their work; false (MT_CUDA=off, the shim is off, no driver yet, a process that runs on
 * another's memory): the call is handed on as it is. Cheap after the first time. Keeps errno. A
 * thread of the program; never from inside dlsym. */
bool mt_wrapper_is_on(void);

/* Returns whether the pool has started, here and not only in the parent. Any thread. */
bool mt_wrapper_is_used(void);

/* In a forked child the driver cannot be used; a state that was off stays it. Returns whether the
 * parent had begun to start the pool. */
bool mt_wrapper_fork_child(void);

/* The settings of the pool as they are configured now. Any thread. */
struct mt_pool_settings;
void mt_wrapper_fill_settings(struct mt_pool_settings *out);

/* Keeps errno as it is here: restored at the end of the function. */
static inline void mt_wrapper_restore_errno(const int *kept)
{
	errno = *kept;
}
#define MT_WRAPPER_KEEP_ERRNO                                                                      \
	const int kept_errno __attribute__((cleanup(mt_wrapper_restore_errno))) = errno

/* Calls the driver's own function, as an expression. Without a driver, or with one that lacks the
 * function, the result is a code. */
#define mt_wrapper_call(name, ...)                                                                 \
	({                                                                                         \
		const struct mt_driver *driver_ = mt_driver();                                     \
                                                                                                   \
		driver_ ? (driver_->name ? driver_->name(__VA_ARGS__) : MT_CU_NOT_FOUND)           \
			: MT_CU_NOT_INITIALIZED;                                                   \
	})

/* After the driver was out of memory: makes the same call again while the pool has something to
 * give back on the device (-1: the current one). bytes: the size asked for; 0: unknown. */
#define mt_wrapper_retry(on_device, bytes, name, ...)                                              \
	mt_pool_again(on_device, bytes, mt_wrapper_call(name, __VA_ARGS__))

/* Calls the driver's own function, and after out of memory mt_wrapper_retry. */
#define mt_wrapper_try(on_device, bytes, name, ...)                                                \
	({                                                                                         \
		int result_ = mt_wrapper_call(name, __VA_ARGS__);                                  \
                                                                                                   \
		if (mt_unlikely(result_ == MT_CU_OUT_OF_MEMORY))                                   \
			result_ = mt_wrapper_retry(on_device, bytes, name, __VA_ARGS__);           \
		result_;                                                                           \
	})

/* ---- gpu/entries_memory.c ---- */

/* Returns whether the machine has one device, as most have. */
bool mt_entries_has_one_device(void);

/* Returns the current device; 0 if there is none. */
int mt_entries_current_device(void);

/* Returns the device of an address; the current one if the driver does not know the address. */
int mt_entries_device_of(uint64_t dptr);

#endif
