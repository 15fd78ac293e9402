/* gpu/fence.h -- when a freed block may be used again: all work enqueued before its free, in every
 * context that could have touched it, is done. Which contexts: its own, and every other one of the
 * process that the pool knows and that is alive. That is more than those with peer access:
 * asynchronous copies between devices work without it and would be missed.
 *
 * Blocks freed close together form a group and share one set of events, one a context. With
 * cuCtxRecordEvent (12.5 on): the group is closed by recording them, when it is full, large or old
 * or one of its blocks is wanted; events recorded later than the free see more work than they need
 * to, never less. Older drivers offer no way that does not wait for the device: nothing is pooled
 * there. The context's lock protects groups and their blocks; a group that is busy belongs, with
 * its events, to the thread that made it so. Driver calls are made with the capture gate entered,
 * which fails while a capture is open: then events that were recorded before it began are queried
 * in relaxed capture mode. */
#ifndef MT_GPU_FENCE_H
#define MT_GPU_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"
#include "gpu/event.h"

/* An event costs about as much as a small kernel launch (some microseconds with many streams):
 * shared by 16 frees it does not count. What a program frees at once (the end of a scope, of a
 * step) comes within 20 us; a longer wait would fence work that came later. */
#define MT_GROUP_BLOCKS 16
#define MT_GROUP_NS     20000

/* A group larger than this share of the device is closed at once. Work that the program enqueues
 * after a free may wait for the program itself (a host function): an allocation that needs the
 * block's memory must not wait for that work. */
#define MT_GROUP_SHARE 64

struct mt_group {
	struct mt_group *next, *prev;
	struct mt_event *events;
	struct mt_block_line blocks;
	uint64_t bytes; /* of the blocks */
	uint32_t count;
	/* its events have been; written without the lock, by the thread that made the group busy:
	 * for others it is a hint, no ordering */
	_Atomic bool is_recorded;
	bool is_busy;
	bool is_lost; /* cannot be fenced: its blocks go to the driver's own cuMemFree */
	/* the work of its own context is: the driver may have its blocks, but nobody may be given
	 * them yet */
	bool is_own_done;
	bool lacks_events;  /* the device had no memory for them: is tried again */
	uint64_t opened_ns; /* coarse clock */
	/* when it got its third block: threads that free one each and take it back read no clock
	 * for this */
	uint64_t third_ns;
};

static inline bool mt_group_is_recorded(const struct mt_group *group)
{
	return atomic_load_explicit(&group->is_recorded, memory_order_relaxed);
}

/* A freed block joins the open group. The lock is held, the block is in no list. False where no
 * group can be had. */
bool mt_fence_add(struct mt_context *context, struct mt_block *block, uint64_t now_ns);

/* The open group is to be closed: full, large, 20 us after its third block, or at once where the
 * device has little memory left (mt_device_memory_is_scarce). The lock is held. */
bool mt_fence_is_due(struct mt_context *context);

/* Records what is not recorded, then asks; the lock is held at the call and at the return, but not
 * between. The group is not busy, and not looked at by the caller after DONE. */
enum mt_fence_answer mt_fence_settle(struct mt_context *context, struct mt_group *group);

/* Closes the open group, if there is one, and records its events, asks nothing. False: the device
 * had no memory for an event. The lock as above. */
bool mt_fence_close(struct mt_context *context);

/* Asks the oldest closed groups, `most` of them, until one is not ready; one that cannot be
 * recorded now does not keep those behind it from being asked. The lock as above. */
void mt_fence_poll(struct mt_context *context, unsigned most);

/* For who is out of memory: asks all closed groups whether the work of their own context is done,
 * for which alone the driver's cuMemFree would have waited. Also while a capture is open. The lock
 * as above. */
void mt_fence_poll_own(struct mt_context *context);

/* Waiting for one of the groups opened by then may help. The lock is held. */
bool mt_fence_is_hopeful(const struct mt_context *context, uint64_t until_ns);

/* Takes a pending block out of its group and of the pending bin; the lock is held. */
void mt_fence_remove(struct mt_context *context, struct mt_block *block);

/* The oldest group with blocks, the open one last; NULL for none. The lock is held. */
struct mt_group *mt_fence_oldest(struct mt_context *context);

/* The same of those that may still become ready by waiting. */
struct mt_group *mt_fence_oldest_hopeful(struct mt_context *context);

/* The context's end, with its lock held and nobody in it: forgets its groups. Answers its events,
 * for mt_events_bury. */
struct mt_event *mt_fence_die(struct mt_context *context);

void mt_fence_forget_all(void);

#endif
