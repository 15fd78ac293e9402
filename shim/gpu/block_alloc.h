/* gpu/block_alloc.h -- new blocks: the driver allocates one, and it gets a record. Any thread of
 * the program. Takes the locks of context and table, none over a call to the driver. */
#ifndef MT_GPU_BLOCK_ALLOC_H
#define MT_GPU_BLOCK_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/blocks.h"
#include "gpu/context.h"

/* Allocates from the driver; where it is out of memory, again while the pool gives back
 * (gpu/shortage.h). bytes: asked_bytes rounded up. Without memory for a record the block stays
 * unrecorded, and its free is the driver's. No lock is held. Returns the driver's result. */
int mt_block_alloc(struct mt_context *context, size_t asked_bytes, size_t bytes,
		   uint64_t *out_dptr);

/* The same where the current context is not known: unrecorded. */
int mt_block_alloc_unknown(size_t bytes, uint64_t *out_dptr);

/* Marks the block as the program's. The context's lock is held. now_ns: the coarse clock, read
 * before the lock was taken. */
void mt_block_alloc_hand_out(struct mt_context *context, struct mt_block *block,
			     uint64_t asked_bytes, uint64_t now_ns);

/* Forgets a block in any state without a call to the driver. The lock of its context is held. */
void mt_block_alloc_drop(struct mt_context *context, struct mt_block *block);

#endif
