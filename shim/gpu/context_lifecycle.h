/* gpu/context_lifecycle.h -- contexts that become known and contexts that end, as the driver's
 * wrappers tell of them. Any thread of the program; no lock held at a call. */
#ifndef MT_GPU_CONTEXT_LIFECYCLE_H
#define MT_GPU_CONTEXT_LIFECYCLE_H

#include <stdbool.h>

struct CUctx_st;

/* The program has a new context: its work counts in every fence from now on, whether it ever
 * allocates here or not. What is remembered of an earlier context with this handle is forgotten. */
void mt_pool_context_made(struct CUctx_st *context, int device);

/* The same for contexts that came by in another way: one that need not be current, the current one.
 * Nothing where it is known. */
void mt_pool_know(struct CUctx_st *context);
void mt_pool_know_current(void);

/* A context that mt_pool_context_made told of lives: it is not a primary one. */
bool mt_pool_has_made(struct CUctx_st *context);

/* Before the driver's destroy: the context's cached blocks are forgotten (they die with it) and its
 * events destroyed; its live blocks are no longer ours. Nothing is called in the driver for it
 * afterwards. Until the driver has waited for the context's work, a fence would miss that work: so
 * with the gate of gpu/capture.h closed until the destroy has returned. Answers what was cached,
 * for mt_pool_context_died. */
struct mt_block;
struct mt_block *mt_pool_context_dies(struct CUctx_st *context);

/* After the destroy, with the gate open again. is_over: the context is gone, and what was cached
 * with it. Else the driver's own cuMemFree, which is what the program has called, gets what was
 * cached. */
void mt_pool_context_died(struct CUctx_st *context, struct mt_block *cached, bool is_over);

/* References to a context beyond its first, which cuCtxAttach counts. What was attached past us is
 * not counted: the driver has as many or more. detach_begin: true where the cuCtxDetach to come
 * cannot be the last one, and detach_end must follow it. await_detaches: before one that may be the
 * last, until those are through. Any thread. */
void mt_pool_context_attached(struct CUctx_st *context);
bool mt_pool_detach_begin(struct CUctx_st *context);
void mt_pool_detach_end(struct CUctx_st *context, int result);
void mt_pool_await_detaches(struct CUctx_st *context);

/* Between mt_capture_close and a call that may end the context: waits until no call of ours is in
 * it. At most 2 s: one that waits for work which waits for the caller would hang it, and it may be
 * no end at all. */
void mt_pool_context_rests(struct CUctx_st *context);

/* It was no end. */
void mt_pool_context_goes_on(struct CUctx_st *context);

/* The same where the driver has ended the context already, with the gate closed since before. */
void mt_pool_context_ended(struct CUctx_st *context);

/* user may now touch owner's blocks. */
void mt_pool_peer(struct CUctx_st *user, struct CUctx_st *owner);

#endif
