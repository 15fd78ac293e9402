/* heap/asleep.h -- a small process: libc's malloc serves it, and the embedded jemalloc is not
 * initialised. A process that grows wakes up, once: from then on new blocks come from jemalloc.
 * Blocks that libc made before are freed by libc. heap/glibc.h says how the two are told apart.
 *
 * The functions that take blocks are switched before those that make blocks, and tell whose a block
 * is until then: no thread can pass a block of jemalloc's to libc.
 *
 * Waking up is under the lock `wake`, for which only fork waits: a thread that finds it locked
 * stays on libc's malloc for this call. So a signal handler, a constructor or another thread may
 * allocate while jemalloc initialises. A child that was copied meanwhile past fork's handlers stays
 * asleep. */
#ifndef MT_HEAP_ASLEEP_H
#define MT_HEAP_ASLEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/backend.h"

/* What ends the sleep: live bytes; bytes allocated, at this pace in blocks of less than 64 kB, or
 * at any pace if the process has MT_MIN_MB of anonymous memory; libc's heap with its free blocks;
 * one block of this size. */
#define MT_WAKE_LIVE_BYTES      (4ull << 20)
#define MT_WAKE_ALLOCATED_BYTES (16ull << 20)
#define MT_WAKE_ALLOCATED_NS    (100 * MT_NS_PER_MS)
#define MT_WAKE_HEAP_BYTES      (16ull << 20)
#define MT_WAKE_BLOCK_BYTES     (5ull << 18)

/* Starts the sleep, once, on the thread that starts the heap, with blocks already handed out or
 * not. Both are kept. If mt_backend_is_limited, libc's malloc serves for good. Returns false if the
 * process cannot sleep: then call mt_asleep_begin_awake or choose another backend. */
bool mt_asleep_start(const struct mt_config *given_config,
		     const struct mt_backend_hooks *given_hooks);

/* Initialises jemalloc at once, on the thread that starts the heap. Returns whether it serves. */
bool mt_asleep_begin_awake(const struct mt_config *given_config,
			   const struct mt_backend_hooks *given_hooks);

/* If libc's malloc has made a block outside its brk heap, leaves the process on it for good, says
 * why, and returns true. */
bool mt_asleep_stay(void);

/* Restores libc's own parameters, if blocks were already made for a sleep that does not come.
 * The thread that starts the heap. */
void mt_asleep_give_up(void);

/* Wakes the process up, if it is asleep and may wake up. Returns whether the embedded jemalloc
 * serves. Any thread, also inside a call of malloc; keeps errno. Never waits for another thread. */
bool mt_asleep_wake(void);

/* The program is about to move the program break, which is not safe beside another such call.
 * libc's malloc moves it for the main thread's blocks, but while asleep for all threads'. So a
 * process with threads wakes up, and libc's malloc leaves the break. Any moment. */
void mt_asleep_leave_break(void);

/* Returns whether jemalloc serves the process. */
bool mt_asleep_is_awake(void);

/* The calling thread has allocated more from libc: wakes the process up if it has grown enough.
 * Returns false if the process stays on libc's malloc. */
bool mt_asleep_note_growth(void);

/* ---- blocks handed out while asleep, once jemalloc serves ---- */

/* Return an old block to libc, and move it into a new one of make's (NULL if there is no
 * memory: the block stays as it is; size 0: frees it and returns NULL). */
void mt_asleep_free_old(void *ptr);
void *mt_asleep_realloc_old(void *ptr, size_t size, void *(*make)(size_t size));

/* pthread_atfork handlers. Prepare waits up to 1 s for a thread that wakes the process up. */
void mt_asleep_fork_prepare(void);
void mt_asleep_fork_parent(void);
void mt_asleep_fork_child(void);

/* As mt_page_flags_note (heap/page_flags.h); from now on frees of libc's blocks look for flags. */
void mt_asleep_note_flags(long number, long address, long bytes, long argument);

#endif
