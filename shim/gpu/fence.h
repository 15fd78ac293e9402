/* gpu/fence.h -- when a freed block may be used again: all work enqueued before its free is done,
 * in its own context and in every other one that may use the block (mt_context_may_use).
 *
 * Blocks freed close together form a group and share one set of events, one event for each context.
 * The open group is closed by recording the events (cuCtxRecordEvent, CUDA 12.5): when it is full,
 * large or old, or when one of its blocks is wanted. Events recorded later than the free cover more
 * work than needed, never less. Older drivers offer no way that does not wait for the device:
 * nothing is pooled there.
 *
 * Owns the groups of a context, its events and its list of free ones, all under the context's lock.
 * A busy group belongs, with its events, to the thread that made it busy. An event in a group of
 * another context is lent: it returns through the pending list (lock `pending_events`), since a
 * thread never holds two contexts' locks. Calls to the driver are made with no lock held and with
 * the capture gate entered; while a capture is open, events that were recorded before it are
 * queried in relaxed capture mode. */
#ifndef MT_GPU_FENCE_H
#define MT_GPU_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

enum mt_fence_status {
	MT_FENCE_DONE, /* the group is retired, its blocks are idle */
	MT_FENCE_NOT_YET,
	MT_FENCE_CAPTURE, /* a capture is open, and nothing could be queried */
	MT_FENCE_LOST     /* it can never be known */
};

struct mt_group {
	struct mt_group *next, *prev;
	struct mt_event *events;
	struct mt_block_line blocks;
	uint64_t bytes; /* of the blocks */
	uint32_t count;
	/* its events are recorded; written without the lock by the thread that made the group
	 * busy: for others a hint, no ordering */
	_Atomic bool is_recorded;
	bool is_busy;
	bool is_lost; /* cannot be fenced: the driver's own cuMemFree gets its blocks */
	/* the work of its own context is done: the driver may have its blocks, but the program may
	 * not yet */
	bool is_own_done;
	bool lacks_events;  /* the device had no memory for its events: tried again later */
	uint64_t opened_ns; /* coarse clock */
	/* when it got its third block: threads that free one block each and allocate it again read
	 * no clock */
	uint64_t third_ns;
};

static inline bool mt_group_is_recorded(const struct mt_group *group)
{
	return atomic_load_explicit(&group->is_recorded, memory_order_relaxed);
}

/* Adds a freed block, which is in no list, to the open group. The lock is held. Returns false where
 * no group can be had. */
bool mt_fence_add(struct mt_context *context, struct mt_block *block, uint64_t now_ns);

/* Records the group's events if they are not, then queries them. The lock is held on entry and
 * on return, but not in between. The group is not busy, and is gone after DONE. */
enum mt_fence_status mt_fence_check(struct mt_context *context, struct mt_group *group);

/* Waits until the work of the group's own context is done, then queries as mt_fence_check. The
 * events are recorded. The lock as above. */
enum mt_fence_status mt_fence_wait(struct mt_context *context, struct mt_group *group);

/* Closes the open group, if there is one, and records its events without a query. Returns false
 * where the device had no memory for an event. The lock as above. */
bool mt_fence_close(struct mt_context *context);

/* Queries up to `limit` closed groups, oldest first, until one is not ready. A group that cannot be
 * recorded now does not hold up those after it. The lock as above. */
void mt_fence_poll(struct mt_context *context, unsigned limit);

/* For a thread that is out of memory: queries for all closed groups whether the work of their own
 * context is done, for which alone the driver's cuMemFree would have waited. Also while a capture
 * is open. The lock as above. */
void mt_fence_poll_own(struct mt_context *context);

/* Returns whether a group opened by `until_ns` may become ready by waiting. The lock is held. */
bool mt_fence_may_complete(const struct mt_context *context, uint64_t until_ns);

/* Takes a pending block out of its group and its bin. The lock is held. */
void mt_fence_remove(struct mt_context *context, struct mt_block *block);

/* Returns the oldest group with blocks, the open one last; NULL: none. The lock is held. */
struct mt_group *mt_fence_oldest(struct mt_context *context);

/* The same among the groups that may become ready by waiting. */
struct mt_group *mt_fence_oldest_completable(struct mt_context *context);

/* At the context's end, with its lock held and no thread in it: forgets its groups and events,
 * which died with it. */
void mt_fence_forget_context(struct mt_context *context);

void mt_fence_forget_all(void);

#endif
