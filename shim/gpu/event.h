/* gpu/event.h -- the driver's events behind the fences.
 *
 * Owns each context's events and its list of free ones, up to MT_FREE_EVENTS; both under the
 * context's lock. An event in a group of another context is lent: it returns through the pending
 * list (lock `pending_events`), since a thread never holds two contexts' locks. Calls to the driver
 * are made with no lock held, and with the capture gate entered or, queries alone, in relaxed
 * capture mode; mt_events_destroy with neither. */
#ifndef MT_GPU_EVENT_H
#define MT_GPU_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

#define MT_FREE_EVENTS 64 /* of a context, kept for reuse */

struct mt_event {
	/* in the free list, the pending list or its group; first: the slab's link */
	struct mt_event *next;
	struct CUevent_st *event;
	struct mt_context *context;
	uint32_t init; /* of the context: another value means that event and context are gone */
	/* in the pending list or in another context's group; under its context's lock */
	bool is_lent;
	struct mt_event *all_next, *all_prev;
};

enum mt_fence_status {
	MT_FENCE_DONE, /* the group is retired, its blocks are idle */
	MT_FENCE_NOT_YET,
	MT_FENCE_CAPTURE, /* a capture is open, and nothing could be queried */
	MT_FENCE_LOST     /* it can never be known */
};

/* Returns a free event of the context, whose lock is held; NULL: there is none. */
struct mt_event *mt_events_take(struct mt_context *context);

/* A group of the context, whose lock is held, needs its events no more. */
void mt_events_return(struct mt_context *context, struct mt_event *list);

/* Records an event of each context that may use the context's blocks and puts it into *list, its
 * own (`own`, or a new one) first. The caller is counted in the context's users. Returns DONE,
 * LOST, or NOT_YET where the device had no memory for an event. *list must be returned in each
 * case. */
enum mt_fence_status mt_events_record(struct mt_context *context, struct mt_event *own,
				      struct mt_event **list);

/* Queries the events. Those of other contexts that are done leave the list. Returns DONE, NOT_YET
 * or LOST. */
enum mt_fence_status mt_events_query(struct mt_context *context, struct mt_event **list);

/* Moves the pending list to the free lists of the contexts. */
void mt_events_return_pending(void);

/* The context ends: its lock is held and no thread is in it. forget_group: for each of its groups.
 * forget_context: returns the events for mt_events_destroy. */
void mt_events_forget_group(struct mt_context *context, struct mt_event *list);
struct mt_event *mt_events_forget_context(struct mt_context *context);
void mt_events_destroy(struct mt_event *dead, bool destroys);

void mt_events_forget_all(void);

#endif
