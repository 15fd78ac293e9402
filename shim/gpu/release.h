/* gpu/release.h -- releases cached blocks to the driver, one by one. Each block is first taken out
 * of bins and table under the context's lock, then freed with no lock held, with its context
 * counted in use and, where none is current, pushed. Any thread; no lock is held at a call. */
#ifndef MT_GPU_RELEASE_H
#define MT_GPU_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

struct mt_release {
	uint64_t freed_until_ns; /* only blocks freed by then */
	uint64_t bytes;          /* stop after so many bytes */
	uint32_t blocks;         /* or so many blocks */
	bool is_decay;
	/* also during a capture: the driver has just let the program allocate. The blocks are free
	 * at the return */
	bool in_capture;
	bool is_background; /* the program does not wait for it: stops at mt_pool_pause_release */
};
#define MT_RELEASE_ALL                                                                             \
	((struct mt_release){UINT64_MAX, UINT64_MAX, UINT32_MAX, false, false, false})

/* Releases idle blocks of a held context, oldest first, until the rule says stop or a capture
 * begins. Returns the bytes; counts down the rule's bytes and blocks. */
uint64_t mt_release_idle(struct mt_context *context, struct mt_release *rule);

/* Releases pending blocks, oldest first (only_lost: of groups that cannot be fenced), by the
 * driver's own cuMemFree, which may wait: only in a call of the program. */
uint64_t mt_release_pending(struct mt_context *context, struct mt_release *rule, bool only_lost);

/* Releases pending blocks of groups that mt_fence_poll_own has marked. */
uint64_t mt_release_own_done(struct mt_context *context, struct mt_release *rule);

/* Releases what is overdue after a pooled cuMemFree: blocks that cannot be fenced, that are pending
 * for too long, that are over the cap. The context is that of the freed block. */
void mt_release_overdue(struct mt_context *context, uint64_t now_ns);
bool mt_release_is_overdue(struct mt_context *context, uint64_t now_ns);

/* Waits until no other thread is freeing a block, up to limit_ns: some microseconds, unless the
 * machine or the driver is busy. Such a thread waits for nothing else. device: MT_ANY_DEVICE for
 * all. */
void mt_release_wait_for_others(int device, uint64_t limit_ns);

/* Returns the bytes cached on the device above the caps. */
uint64_t mt_release_excess(int device);

/* Around a read of the driver's free memory to which mt_pool_withheld_bytes is added: a block that
 * is being freed is in neither. begin waits until no thread is freeing one (some microseconds; up
 * to 100 ms), and the worker starts none before the end. end returns false where a block was freed
 * meanwhile: the sum may lack it. An end must follow each begin. Any thread. */
uint32_t mt_pool_read_begin(int device);
bool mt_pool_read_end(int device, uint32_t releases);

/* The cap of what is held from the driver on a device: a quarter above the largest that the program
 * has held, and 64 MB more where a free does not wait, or work of another context is not done. */

/* Before the driver is asked for so many bytes: waits for the context's oldest fences and releases
 * idle blocks that would be over the cap, or over garbage_collection_threshold. */
void mt_release_make_room(struct mt_context *context, uint64_t bytes);

/* After a free of so many bytes that did not wait: waits for the context's oldest fences while
 * another block of this size would pass the cap, and releases idle blocks above it. */
void mt_release_keep_cap(struct mt_context *context, uint64_t bytes);

/* Returns the bytes held on the device above that cap. */
uint64_t mt_release_over_cap(int device);

#endif
