/* core/init.h -- birth, growth, fork and end of the shim in a process. core/init.c is the one file
 * that knows everybody's order; entry/ reaches it through the few calls below. */
#ifndef MT_CORE_INIT_H
#define MT_CORE_INIT_H

#include <stdbool.h>
#include <stdint.h>

/* The first call of the heap family in this process: reads the settings, chooses the backend, and
 * points heap/entries.c at it. Safe to call again and from any thread; calls that come from inside
 * it are served by the bootstrap arena. */
void mt_init_start_heap(void);

/* Whether the shim does anything here: false before its start, and with MT_ENABLE=0, MT_ONLY,
 * MT_EXCLUDE. */
bool mt_init_is_on(void);

/* Whether the embedded jemalloc serves malloc; starts the heap if that is not known yet. False
 * while it starts. */
bool mt_init_uses_jemalloc(void);

/* Whether it is already known: false before the start. */
bool mt_init_has_started(void);

/* Whether this process is the one that the shim started in or a child with fork's handlers: else
 * there may be a worker in our memory that is no thread of ours. */
bool mt_init_is_own_process(void);

/* The heap has grown: starts the worker if the process is large enough by now. Called by whoever
 * allocated, after the allocator has returned (a thread started from inside it would wait for a
 * mutex that its own thread holds). */
void mt_init_note_growth(void);

/* The first call of a wrapped CUDA function: starts the pool and the worker. True when the wrappers
 * are to do their work; false (MT_CUDA=off, the shim is off, a forked child): hand the call on as
 * it is. Cheap after the first. Never called from inside dlsym. */
bool mt_init_start_cuda(void);

/* Allocated bytes of a thread between two looks at growth, where the allocator has no hook that
 * tells. */
#define MT_GROWTH_STEP_BYTES (4ull << 20)

#endif
