/* core/state.h -- what the shim is in this process: on or off, of which process, over which
 * allocator. core/init.c and heap/ write it while the process begins; afterwards it changes in
 * forked children alone. Any thread, also inside malloc; no lock. */
#ifndef MT_CORE_STATE_H
#define MT_CORE_STATE_H

#include <stdbool.h>

/* Whether the start is over. */
bool mt_state_has_started(void);

/* Whether the shim does anything here: false before its start, and with MT_ENABLE=0, MT_ONLY,
 * MT_EXCLUDE. */
bool mt_state_is_on(void);

/* Whether this is the process that the shim started in, or a child that went through fork's
 * handlers. Else our memory is another process's or a copy of it, and the worker in it is no thread
 * of ours. */
bool mt_state_is_own_process(void);

/* Whether the embedded jemalloc serves malloc; false until that is known. */
bool mt_state_is_jemalloc(void);

/* The name of the allocator that serves malloc; "unknown" before the start. */
const char *mt_state_allocator(void);

/* heap/ tells, once, while it starts. allocator: never freed. */
void mt_state_note_heap(const char *allocator, bool is_jemalloc);

/* For core/init.c. begin: true for one caller, once. finish: the start is over, release. */
bool mt_state_begin(void);
bool mt_state_has_begun(void);
void mt_state_finish(bool is_on);

/* This is our process from now on. */
void mt_state_note_process(void);

#endif
