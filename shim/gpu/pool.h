/* gpu/pool.h -- device blocks kept for reuse, one pool per CUDA context, over the driver it is
 * given. Whole blocks only: each is one real cuMemAlloc of its context, so that a cached block can
 * always go back, and IPC, peers and address ranges stay true. A freed block is handed out again
 * only when all work enqueued before the free, in every context that could have touched it, is done
 * (gpu/fence.h).
 *
 * Any thread may call. Its locks (sys/lock_ranks.def) are never held over a driver call (one named
 * exception: the capture gate, gpu/capture.h). Never calls malloc: it runs inside cuMemAlloc, which
 * may run inside the program's malloc hooks; its tables are mapped. Results are the driver's (enum
 * mt_cu_result). The order of every call's bookkeeping: reserve the record, call the driver, fill
 * the record; a driver that fails leaves nothing behind.
 *
 * A context's mode is decided at its first allocation: POOL (blocks are cached), ACCOUNT (each call
 * goes to the driver and is only counted) or OFF; it may later change from POOL to ACCOUNT alone.
 */
#ifndef MT_GPU_POOL_H
#define MT_GPU_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.h"
#include "gpu/pool_settings.h"

/* Once, before any other call; the settings are copied. Again after mt_pool_fork_child only in
 * tests. */
void mt_pool_start(const struct mt_driver *driver, const struct mt_pool_settings *settings);

/* `mtctl set` has changed a setting; mode is not looked at again. */
void mt_pool_configure(const struct mt_pool_settings *settings);

/* cuMemAlloc. Sizes of 0 and NULL outputs are answered by the driver. The driver out of memory:
 * gpu/shortage.h. */
int mt_pool_alloc(uint64_t *out_dptr, size_t bytes);

/* cuMemFree of a block of ours; false, and nothing done, for a pointer that is not known: that one
 * is the driver's. The second free of a cached block is CUDA_ERROR_INVALID_VALUE. */
bool mt_pool_take_back(uint64_t dptr, int *out_result);

/* The block will not be recycled: its free goes straight to the driver. Any address inside the
 * block. */
void mt_pool_mark_non_recyclable(uint64_t dptr);

/* The live block with this base leaves the pool without a call to the driver: the caller frees it
 * in another way than cuMemFree. False where there is no live block with this base. */
bool mt_pool_release(uint64_t dptr);

/* Base and size as asked for of the live block with this base; false for what is not ours.
 * *out_cached tells a block that the program has freed. */
bool mt_pool_range(uint64_t base, size_t *out_bytes, bool *out_cached);

/* Green contexts exist on the device: events of a context do not see their work, so nothing is
 * pooled any more. No driver call. */
void mt_pool_green(int device);

/* Fences for what has been freed so far. Before a capture, in which none can be had and the driver
 * serves every call itself; and before a function of the program's on the host, which may wait for
 * the program: a later fence would wait for it. */
void mt_pool_fence_freed(void);

/* The mode function's answer may have changed: contexts that pool now only account if it says so.
 */
void mt_pool_reconsider(void);

/* The child makes no CUDA calls; its cuMemFree of a pointer goes to the driver. */
void mt_pool_fork_child(void);

#endif
