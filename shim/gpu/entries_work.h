/* gpu/entries_work.h -- what the wrappers of gpu/entries_*.c share. They keep no state and no
 * policy. Each hands its call on as it is where the shim does nothing (mt_gpu_wake), keeps errno,
 * and hands a NULL output to the driver as it is. No lock of ours is held over a driver call but
 * the capture gate. */
#ifndef MT_GPU_ENTRIES_WORK_H
#define MT_GPU_ENTRIES_WORK_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/attr.h"
#include "gpu/driver.h"
#include "gpu/entries.h"
#include "gpu/wake.h"
#include "gpu/context_lifecycle.h"
#include "gpu/pool.h"
#include "gpu/shortage.h"
#include "gpu/unpooled.h"
#include "gpu/usage.h"
#include "gpu/oom.h"

/* Whether a wrapper does its work; the first call of all starts the pool. */
static inline bool mt_cuda_is_on(void)
{
	int kept_errno = errno;
	bool is_on = mt_gpu_wake();

	errno = kept_errno;
	return is_on;
}

/* The driver's own function, as an expression; what a program linked against a driver without it,
 * or called before any driver is loaded, is told by a code. */
#define mt_cuda_call(name, ...)                                                                    \
	({                                                                                         \
		const struct mt_driver *driver_ = mt_driver();                                     \
                                                                                                   \
		driver_ ? (driver_->name ? driver_->name(__VA_ARGS__) : MT_CU_NOT_FOUND)           \
			: MT_CU_NOT_INITIALIZED;                                                   \
	})

/* The driver was out of memory: the same call again, as long as the pool has something to give back
 * on the device (-1: the current one). bytes: what is asked for, 0 where unknown. */
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

/* The driver's own function, and where it is out of memory mt_cuda_retry. */
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

	mt_pool_know_current(); /* its work may touch the pool's blocks, though it has none */
	return work;
}

/* The end of an allocating wrapper: records `is` where the driver has succeeded. Returns the
 * result. */
int mt_cuda_end(const struct mt_cuda_work *work, int result, const struct mt_unpooled *is);

/* The end of a freeing wrapper, which took the record out before it called the driver
 * (mt_unpooled_take); NULL: there was none. */
int mt_cuda_end_free(int kept_errno, int result, struct mt_unpooled_record *taken);

/* The end of an allocating call, as the program is about to see it: an out-of-memory error is
 * reported with the device's own figures, a success may be the end of one. device -1: the current
 * one. */
void mt_cuda_tell(const char *function, int result, uint64_t bytes, int device);

static inline void mt_cuda_note(const char *function, int result, uint64_t bytes, int device)
{
	if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY || mt_oom_is_open()))
		mt_cuda_tell(function, result, bytes, device);
}

/* The device and context that the calling thread works with; 0 where there is none. */
int mt_cuda_current_device(void);
uint64_t mt_cuda_current_context(void);

/* The device of an address, the current one where the driver does not know it. */
int mt_cuda_device_of(uint64_t dptr);

/* ---- the pool's blocks by any address inside them ---- */

struct mt_cuda_block {
	uint64_t base;
	size_t bytes; /* as asked for */
	/* to the program no memory: it has freed the block, or the address lies behind the size it
	 * asked for */
	bool is_absent;
};

/* False for what is not the pool's. */
bool mt_cuda_find_block(uint64_t dptr, struct mt_cuda_block *out);

#endif
