/* core/state.h -- the state of the shim in this process: on or off, the process that it belongs to,
 * and the allocator behind it. Owns those values. core/init.c and heap/ write them while the
 * process starts; later only a forked child changes them. Any thread may call, also inside malloc.
 * Takes no lock, never allocates. */
#ifndef MT_CORE_STATE_H
#define MT_CORE_STATE_H

#include <stdbool.h>

/* Returns whether the start of the shim is complete. */
bool mt_state_has_started(void);

/* Returns whether the shim works in this process. False before its start, and where MT_ENABLE,
 * MT_ONLY or MT_EXCLUDE switch it off. */
bool mt_state_is_on(void);

/* Returns whether this is the process in which the shim started, or a child made through fork's
 * handlers. False in a vfork child, which runs on its parent's memory, and in a raw clone, which
 * has a copy of it: the worker thread is not a thread of these. */
bool mt_state_is_own_process(void);

/* Returns whether the embedded jemalloc serves malloc, or will once the process has grown; false
 * until that is decided. */
bool mt_state_is_jemalloc(void);

/* Returns the name of the allocator that serves malloc; "unknown" before the start. */
const char *mt_state_allocator(void);

/* Sets the allocator. Called by heap/ while it starts, and once more if the process then wakes
 * up or stays on libc's malloc for good. name: must live as long as the process. */
void mt_state_note_heap(const char *name, bool is_jemalloc);

/* For core/init.c. mt_state_begin returns true to exactly one caller, which starts the shim and
 * then calls mt_state_finish. */
bool mt_state_begin(void);
bool mt_state_has_begun(void);
void mt_state_finish(bool is_on);

/* Makes the calling process the one that the shim belongs to. */
void mt_state_note_process(void);

#endif
