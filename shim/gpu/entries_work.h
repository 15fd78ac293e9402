/* gpu/entries_work.h -- what the wrappers of gpu/entries_*.c share.
 *
 * Threads of the program. A wrapper hands its call on as it is where the shim does nothing
 * (mt_gpu_start), keeps errno, and hands NULL outputs to the driver. It keeps no state and no
 * policy, and holds no lock over a call to the driver but the capture gate. */
#ifndef MT_GPU_ENTRIES_WORK_H
#define MT_GPU_ENTRIES_WORK_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/attr.h"
#include "gpu/driver.h"
#include "gpu/entries.h"
#include "gpu/start.h"
#include "gpu/context_lifecycle.h"
#include "gpu/pool.h"
#include "gpu/shortage.h"
#include "gpu/unpooled.h"
#include "gpu/usage.h"
#include "gpu/oom.h"

/* Returns whether a wrapper does its work; the first call starts the pool. */
static inline bool mt_cuda_is_on(void)
{
	int kept_errno = errno;
	bool is_on = mt_gpu_start();

	errno = kept_errno;
	return is_on;
}

/* Calls the driver's own function, as an expression. Without a driver, or with one that lacks the
 * function, the result is a code. */
#define mt_cuda_call(name, ...)                                                                    \
	({                                                                                         \
		const struct mt_driver *driver_ = mt_driver();                                     \
                                                                                                   \
		driver_ ? (driver_->name ? driver_->name(__VA_ARGS__) : MT_CU_NOT_FOUND)           \
			: MT_CU_NOT_INITIALIZED;                                                   \
	})

/* After the driver was out of memory: makes the same call again while the pool has something to
 * give back on the device (-1: the current one). bytes: the size asked for; 0: unknown. */
#define mt_cuda_retry(on_device, bytes, name, ...)                                                 \
	({                                                                                         \
		int again_ = MT_CU_OUT_OF_MEMORY;                                                  \
		struct mt_shortage shortage_;                                                      \
                                                                                                   \
		if (mt_shortage_begin(&shortage_, on_device, bytes)) {                             \
			while (again_ == MT_CU_OUT_OF_MEMORY && mt_shortage_next(&shortage_))      \
				again_ = mt_cuda_call(name, __VA_ARGS__);                          \
			mt_shortage_end(&shortage_);                                               \
		}                                                                                  \
		again_;                                                                            \
	})

/* Calls the driver's own function, and after out of memory mt_cuda_retry. */
#define mt_cuda_try(on_device, bytes, name, ...)                                                   \
	({                                                                                         \
		int result_ = mt_cuda_call(name, __VA_ARGS__);                                     \
                                                                                                   \
		if (mt_unlikely(result_ == MT_CU_OUT_OF_MEMORY))                                   \
			result_ = mt_cuda_retry(on_device, bytes, name, __VA_ARGS__);              \
		result_;                                                                           \
	})

/* One call of a wrapper: errno, and its record (NULL: it goes unrecorded). */
struct mt_cuda_work {
	int kept_errno;
	struct mt_unpooled_record *record;
};

static inline struct mt_cuda_work mt_cuda_begin(void)
{
	struct mt_cuda_work work = {.kept_errno = errno, .record = mt_unpooled_reserve()};

	mt_context_register_current(); /* its work may use the pool's blocks, even if it has none */
	return work;
}

/* The end of an allocating wrapper: records `is` where the driver has succeeded. Returns the
 * result. */
int mt_cuda_end(const struct mt_cuda_work *work, int result, const struct mt_unpooled *is);

/* The end of a freeing wrapper. taken: the record from mt_unpooled_take before the call; NULL:
 * none. */
int mt_cuda_end_free(int kept_errno, int result, struct mt_unpooled_record *taken);

/* Defines the wrapper of a function that frees what is recorded as `kind` under its one argument.
 */
#define MT_CUDA_FREE_WRAPPER(name, type, kind)                                                     \
	int name(type freed)                                                                       \
	{                                                                                          \
		int kept_errno = errno;                                                            \
		struct mt_unpooled_record *taken;                                                  \
                                                                                                   \
		if (!mt_cuda_is_on())                                                              \
			return mt_cuda_call(name, freed);                                          \
		taken = mt_unpooled_take(kind, (uint64_t)(uintptr_t)freed);                        \
		return mt_cuda_end_free(kept_errno, mt_cuda_try(-1, 0, name, freed), taken);       \
	}

/* The end of an allocating call, before the program sees the result: an out-of-memory error is
 * reported with the device's figures; a success may end a pending one. device -1: the current one.
 */
void mt_cuda_report(const char *function, int result, uint64_t bytes, int device);

static inline void mt_cuda_note(const char *function, int result, uint64_t bytes, int device)
{
	if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY || mt_oom_is_pending()))
		mt_cuda_report(function, result, bytes, device);
}

/* Returns whether the machine has one device, as most have. */
bool mt_cuda_has_one_device(void);

/* Returns the current device; 0 where there is none. */
int mt_cuda_current_device(void);

/* Describes what was just allocated on the current device, in the current context. */
struct mt_unpooled mt_cuda_describe(enum mt_unpooled_kind kind, uint64_t key, uint64_t bytes);

/* Returns the device of an address; the current one where the driver does not know the address. */
int mt_cuda_device_of(uint64_t dptr);

#endif
