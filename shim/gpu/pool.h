/* gpu/pool.h -- device blocks kept for reuse, one pool for each CUDA context, over the driver that
 * it is given.
 *
 * Each block is one whole cuMemAlloc of its context, so that a cached block can always go back, and
 * IPC, peers and address ranges stay true. A freed block is handed out again only when all work
 * enqueued before the free is done, in every context that could have used it (gpu/fence.h).
 *
 * Any thread may call. No lock (sys/lock_ranks.def) is held over a call to the driver but the
 * capture gate (gpu/capture.h). Never calls malloc: it runs inside cuMemAlloc, which may run inside
 * the program's malloc hooks; its tables are mapped. Results are the driver's (enum mt_cu_result).
 * Every call reserves the record, calls the driver, then fills the record: a driver that fails
 * leaves nothing behind.
 *
 * A context's mode is decided at its first allocation: POOL (blocks are cached), ACCOUNT (each call
 * goes to the driver and is counted) or OFF. Later it changes only from POOL to ACCOUNT. */
#ifndef MT_GPU_POOL_H
#define MT_GPU_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.h"
#include "gpu/pool_settings.h"

/* Starts the pool: once, before any other call; copies the settings. Tests call it again after
 * mt_pool_fork_child. */
void mt_pool_start(const struct mt_driver *driver, const struct mt_pool_settings *settings);

/* Applies changed settings; `mode` stays. */
void mt_pool_configure(const struct mt_pool_settings *settings);

/* cuMemAlloc. Sizes of 0 and NULL outputs go to the driver. If the driver is out of memory the
 * pool gives back and tries again (gpu/release.h). Returns the driver's result. */
int mt_pool_alloc(uint64_t *out_dptr, size_t bytes);

/* cuMemFree of a block of the pool. Returns false, and does nothing, for an unknown pointer: it is
 * the driver's. The second free of a cached block results in CUDA_ERROR_INVALID_VALUE. */
bool mt_pool_free(uint64_t dptr, int *out_result);

/* Marks the block with this base: it is not handed out again, and its free goes to the driver. */
void mt_pool_mark_non_recyclable(uint64_t base);

/* The live block with this base leaves the pool without a call to the driver: the caller frees it
 * in another way than cuMemFree. Returns false if there is no such block. */
bool mt_pool_disown(uint64_t dptr);

/* Returns whether a block of the pool has this base; its size as asked for, and whether the program
 * has freed it. */
bool mt_pool_range(uint64_t base, size_t *out_bytes, bool *out_cached);

/* Green contexts exist: events of a context do not see their work, so nothing is pooled any more.
 * Makes no call to the driver. */
void mt_pool_note_green_context(void);

/* Asks the mode function again: contexts that pool only account from now on if it says so. */
void mt_pool_update_mode(void);

/* The child makes no CUDA call of the shim; its cuMemFree goes to the driver. */
void mt_pool_fork_child(void);

#endif
