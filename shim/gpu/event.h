/* gpu/event.h -- the driver's events behind the fences. Events are made with their context current,
 * kept in a bounded free_events of it, and destroyed with it. What lies in a group of another context is
 * deferred: it comes back by way of the pending list, for two contexts' locks are never held at
 * once. All driver calls here are made with no lock held, and with the gate (gpu/capture.h) entered
 * or, queries alone, in relaxed capture mode; mt_events_destroy with neither. */
#ifndef MT_GPU_EVENT_H
#define MT_GPU_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

#define MT_FREE_EVENTS 64 /* of a context, kept for reuse */

struct mt_event {
	/* in the free_events, the pending list or its group; first: the slab's link */
	struct mt_event *next;
	struct CUevent_st *event;
	struct mt_context *context;
	uint32_t init; /* of the context: another one now means that event and context are gone */
	/* in the pending list or in another context's group; under its context's lock */
	bool is_lent;
	struct mt_event *all_next, *all_prev;
};

enum mt_fence_status {
	MT_FENCE_DONE, /* the group is retired, its blocks are idle */
	MT_FENCE_NOT_YET,
	MT_FENCE_CAPTURE, /* a capture is open, and nothing could be asked */
	MT_FENCE_LOST     /* it can never be known */
};

/* One of the context's free_events, whose lock is held; NULL when it is empty. */
struct mt_event *mt_events_take(struct mt_context *context);

/* A group of the context, whose lock is held, needs its events no more. */
void mt_events_return(struct mt_context *context, struct mt_event *list);

/* An event of each context that may touch the context's blocks is recorded and put into *list,
 * `own` (or a new one) among them. The caller is counted in the context's users. Its own is the
 * first of the list. DONE, LOST, or NOT_YET where the device had no memory for an event; *list has
 * to be given back in each case. */
enum mt_fence_status mt_events_record(struct mt_context *context, struct mt_event *own,
				      struct mt_event **list);

/* Whether all are done; those of other contexts leave the list as they are. DONE, NOT_YET or LOST.
 */
enum mt_fence_status mt_events_query(struct mt_context *context, struct mt_event **list);

/* What lies in the pending list, into the stocks that it is of. */
void mt_events_return_pending(void);

/* The context ends; its lock is held and nobody is in it. abandon: for each of its groups. die:
 * what is to be buried. */
void mt_events_forget_group(struct mt_context *context, struct mt_event *list);
struct mt_event *mt_events_forget_context(struct mt_context *context);
void mt_events_destroy(struct mt_event *dead, bool destroys);

void mt_events_forget_all(void);

#endif
