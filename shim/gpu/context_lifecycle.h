/* gpu/context_lifecycle.h -- contexts that begin and end, as the wrappers of the driver report
 * them. Threads of the program; no lock is held at a call. Takes the locks `slots` and `context`.
 */
#ifndef MT_GPU_CONTEXT_LIFECYCLE_H
#define MT_GPU_CONTEXT_LIFECYCLE_H

#include <stdbool.h>

struct CUctx_st;

/* The program has created a context: its work counts in every fence from now on, even if it never
 * allocates. An earlier context with this handle is forgotten. */
void mt_context_created(struct CUctx_st *context, int device);

/* The same for a context found in another way: it need not be current; or the current one. Does
 * nothing where it is known. */
void mt_context_register(struct CUctx_st *context);
void mt_context_register_current(void);

/* Work of `user` may use blocks of `peer` from now on: both are registered. */
void mt_context_note_peers(struct CUctx_st *user, struct CUctx_st *peer);

/* Returns whether mt_context_created was called for this context and it lives: then it is no
 * primary context. */
bool mt_context_is_own(struct CUctx_st *context);

/* Before the driver's destroy: forgets the context's cached blocks, which die with it, and its live
 * blocks, and destroys its events. Makes no call to the driver for it afterwards. A fence would
 * miss the context's work until the driver has waited for it: so the gate (gpu/capture.h) stays
 * closed until the destroy has returned. Returns what was cached, for mt_context_destroy_end. */
struct mt_block;
struct mt_block *mt_context_destroy_begin(struct CUctx_st *context);

/* After the destroy, with the gate open again. is_over: the context is gone with what was cached.
 * Else what was cached is freed by cuMemFree, as the program asked. */
void mt_context_destroy_end(struct CUctx_st *context, struct mt_block *cached, bool is_over);

/* After mt_capture_gate_close, before a call that may end the context: lets no further call of the
 * shim begin there and waits for those in flight. Up to 2 s: such a call may wait for work that
 * waits for the caller, and the context may not end. */
void mt_context_pause(struct CUctx_st *context);

/* The context did not end: calls may begin again. */
void mt_context_resume(struct CUctx_st *context);

/* The driver has ended the context, with the gate closed since before: forgets it. */
void mt_context_destroyed(struct CUctx_st *context);

#endif
