/* gpu/context_lifecycle.h -- contexts that begin and end, as the wrappers of the driver report
 * them. Threads of the program; no lock is held at a call. Takes the locks `slots` and `context`.
 */
#ifndef MT_GPU_CONTEXT_LIFECYCLE_H
#define MT_GPU_CONTEXT_LIFECYCLE_H

#include <stdint.h>

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

/* After mt_capture_gate_close, before a call that may end the context: lets no further call of the
 * shim begin there and waits for those in flight. Up to 2 s: such a call may wait for work that
 * waits for the caller, and the context may not end. Returns the context's init; 0: not known. */
uint32_t mt_context_pause(struct CUctx_st *context);

/* The context did not end: calls may begin again. */
void mt_context_resume(struct CUctx_st *context);

/* The driver has ended the context of that init, with the gate closed since before the pause:
 * forgets it, with its blocks and events, which died with it. */
void mt_context_ended(struct CUctx_st *context, uint32_t init);

/* The same for the context that has this handle now. */
void mt_context_destroyed(struct CUctx_st *context);

#endif
