/* gpu/release.h -- cached blocks go back to the driver, one by one: each is first taken out of bins
 * and table under the context's lock, then freed with no lock held, its context counted in use and,
 * where none is current, pushed. */
#ifndef MT_GPU_RELEASE_H
#define MT_GPU_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

struct mt_release {
	uint64_t freed_until_ns; /* only blocks freed by then */
	uint64_t bytes;          /* stop when so many are given back */
	uint32_t blocks;         /* or so many blocks */
	bool is_decay;
	/* while one is open too: where the driver has just let the program allocate, if there had
	 * been memory. The blocks are free at the return */
	bool in_capture;
	bool is_background; /* nobody waits for it: stops where mt_pool_hold_back says so */
};
#define MT_RELEASE_ALL                                                                             \
	((struct mt_release){UINT64_MAX, UINT64_MAX, UINT32_MAX, false, false, false})

/* Idle blocks of a held context, oldest first, until the rule says stop or a capture begins. Bytes
 * given back; counts down the rule's bytes and blocks. */
uint64_t mt_release_idle(struct mt_context *context, struct mt_release *rule);

/* Pending blocks, oldest first (`only_lost`: of groups that cannot be fenced), to the driver's own
 * cuMemFree, which waits as long as it takes: only in a program's call. */
uint64_t mt_release_pending(struct mt_context *context, struct mt_release *rule, bool only_lost);

/* Pending blocks of groups that mt_fence_poll_own has marked. */
uint64_t mt_release_own_done(struct mt_context *context, struct mt_release *rule);

/* What a pooled cuMemFree owes afterwards: blocks that cannot be fenced, that have been pending for
 * too long, that are over the cap. The context is one of a block just freed; no lock held. */
void mt_release_overdue(struct mt_context *context, uint64_t now_ns);
bool mt_release_is_overdue(struct mt_context *context, uint64_t now_ns);

/* Waits until no other thread has blocks in hand on their way to the driver: some microseconds, 50
 * ms at most. device: MT_ANY_DEVICE for all. No lock held. */
void mt_release_await(int device);

/* Bytes cached on the device beyond the caps; 0 for none. */
uint64_t mt_release_excess(int device);

/* For a caller that adds mt_pool_withheld_bytes to what the driver has free: a block on its way
 * back to the driver is in neither. begin waits until none is on its way (some microseconds; 100 ms
 * at most), and the worker starts none before the end. end returns false where a block has been on
 * its way meanwhile: the sum may lack it. Each begin has its end. Any thread, no lock held. */
uint32_t mt_pool_read_begin(int device);
bool mt_pool_read_end(int device, uint32_t releases);

/* Before the driver is asked for so many bytes: garbage_collection_threshold. No lock held. */
void mt_release_collect(struct mt_context *context, uint64_t bytes);

#endif
