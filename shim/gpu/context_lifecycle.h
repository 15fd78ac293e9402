/* gpu/context_lifecycle.h -- contexts that become known and contexts that end, as the driver's
 * wrappers tell of them. Any thread of the program; no lock held at a call. */
#ifndef MT_GPU_CONTEXT_LIFECYCLE_H
#define MT_GPU_CONTEXT_LIFECYCLE_H

#include <stdbool.h>

struct CUctx_st;

/* The program has a new context: its work counts in every fence from now on, whether it ever
 * allocates here or not. What is remembered of an earlier context with this handle is forgotten. */
void mt_context_created(struct CUctx_st *context, int device);

/* The same for contexts that came by in another way: one that need not be current, the current one.
 * Nothing where it is known. */
void mt_context_register(struct CUctx_st *context);
void mt_context_register_current(void);

/* A context that mt_context_created told of lives: it is not a primary one. */
bool mt_context_is_own(struct CUctx_st *context);

/* Before the driver's destroy: the context's cached blocks are forgotten (they die with it) and its
 * events destroyed; its live blocks are no longer ours. Nothing is called in the driver for it
 * afterwards. Until the driver has waited for the context's work, a fence would miss that work: so
 * with the gate of gpu/capture.h closed until the destroy has returned. Answers what was cached,
 * for mt_context_destroy_end. */
struct mt_block;
struct mt_block *mt_context_destroy_begin(struct CUctx_st *context);

/* After the destroy, with the gate open again. is_over: the context is gone, and what was cached
 * with it. Else the driver's own cuMemFree, which is what the program has called, gets what was
 * cached. */
void mt_context_destroy_end(struct CUctx_st *context, struct mt_block *cached, bool is_over);

/* Between mt_capture_gate_close and a call that may end the context: waits until no call of ours is in
 * it. At most 2 s: one that waits for work which waits for the caller would hang it, and it may be
 * no end at all. */
void mt_context_pause(struct CUctx_st *context);

/* It was no end. */
void mt_context_resume(struct CUctx_st *context);

/* The same where the driver has ended the context already, with the gate closed since before. */
void mt_context_destroyed(struct CUctx_st *context);

#endif
