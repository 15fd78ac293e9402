/* gpu/fence.h -- when a freed block may be used again: all work enqueued before its free is done,
 * in its own context and in every other one that may use the block (mt_context_may_use).
 *
 * The free records an event in each of these contexts (cuCtxRecordEvent, CUDA 12.5). If one
 * cannot be recorded, the block is not cached: the driver's own cuMemFree gets it. So each pending
 * block has its events, and nothing that the program enqueues after a free delays its block. Older
 * drivers offer no way that does not wait for the device: nothing is pooled there.
 *
 * Owns the pending blocks of a context and their events, under the context's lock. A busy block
 * belongs, with its events, to the thread that made it busy. Calls to the driver are made with no
 * lock held and with the capture gate entered. While a capture is open nothing is recorded, and
 * events are queried in relaxed capture mode. Any thread may call. */
#ifndef MT_GPU_FENCE_H
#define MT_GPU_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

enum mt_fence_status {
	MT_FENCE_DONE, /* the block is idle */
	MT_FENCE_NOT_YET,
	/* it can never be known, or an event could not be recorded: the driver's cuMemFree is to
	 * free it */
	MT_FENCE_LOST
};

/* Makes a freed block, which is in no list, pending, and records its events. Asks whether all work
 * is done, if the block is the only pending one. waits: waits for the work of the block's own
 * context, then asks whether that of the others is done. The
 * block is pending after all results but DONE. The lock is held on entry and
 * on return, but not in between. */
enum mt_fence_status mt_fence_free(struct mt_context *context, struct mt_block *block, bool waits);

/* Asks about up to `limit` pending blocks, oldest first, until the work of the context itself is
 * not done for one: it is not done for later ones either. Returns whether one became idle. The
 * lock as above. */
bool mt_fence_poll(struct mt_context *context, unsigned limit);

/* Returns whether the work of a pending block's own context is known to be done: the driver may
 * have the block, but the program may not yet. The lock is held. */
bool mt_fence_is_own_done(const struct mt_context *context, const struct mt_block *block);

/* Puts a block back that mt_fence_remove has taken out, with its events. The lock is held. */
void mt_fence_add(struct mt_context *context, struct mt_block *block);

/* Takes a pending block that is not busy out of its list and its bin. Its events stay with it: the
 * caller returns them (mt_fence_return_events) once it holds no lock. The lock is held. */
void mt_fence_remove(struct mt_context *context, struct mt_block *block);
void mt_fence_return_events(struct mt_block *block);

#endif
