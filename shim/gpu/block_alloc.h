/* gpu/block_alloc.h -- a block that comes from the driver, and the record that it gets. */
#ifndef MT_GPU_BLOCK_ALLOC_H
#define MT_GPU_BLOCK_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/blocks.h"
#include "gpu/context.h"

/* From the driver, tried again after making room; with a record where there is memory for one, else
 * unrecorded: its free is then the driver's. bytes is asked_bytes rounded up. No lock is held.
 * Answers the driver's result. */
int mt_block_alloc(struct mt_context *context, size_t asked_bytes, size_t bytes,
		   uint64_t *out_dptr);

/* The same in a context that is not known: unrecorded. */
int mt_block_alloc_unknown(size_t bytes, uint64_t *out_dptr);

/* The block is the program's from now on; the context's lock is held, and now_ns (coarse) was asked
 * before it was taken. */
void mt_block_alloc_hand_out(struct mt_context *context, struct mt_block *block,
			     uint64_t asked_bytes, uint64_t now_ns);

/* Forgets a block, whatever its state, without a call to the driver; the lock of its context is
 * held. */
void mt_block_alloc_drop(struct mt_context *context, struct mt_block *block);

#endif
