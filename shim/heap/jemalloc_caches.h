/* heap/jemalloc_caches.h -- empties the caches of threads that sleep. jemalloc empties a cache on
 * its own thread alone, so a thread that waits keeps what it has freed. Here the worker does it, of
 * a thread of which the kernel says that it waits in a system call, outside the allocator. Should
 * it wake up meanwhile, it waits before it uses the cache: all calls of the heap family pass a gate
 * for that time. Owns which cache is being emptied. jemalloc 5.3.0 alone; not while the heap
 * profiler is prepared. */
#ifndef MT_HEAP_JEMALLOC_CACHES_H
#define MT_HEAP_JEMALLOC_CACHES_H

#include <stdbool.h>

/* Fewer threads hold some 20 MB, and empty caches would cost their next allocations. */
#define MT_JEMALLOC_MANY_THREADS 16u

/* From the return of close on, until open, all calls of the heap family pass
 * mt_jemalloc_caches_wait; close waits up to 10 ms, and returns false if they do not. reset: open,
 * in a forked child. Worker thread. */
struct mt_jemalloc_gate {
	bool (*close)(void);
	void (*open)(void);
	void (*reset)(void);
};

/* Before the process has a worker. gate: never freed. */
void mt_jemalloc_caches_use(const struct mt_jemalloc_gate *gate);

/* Tries the layout of a cache, with that of the calling thread. Once, by the thread that starts
 * jemalloc. */
void mt_jemalloc_caches_begin(bool profiles);

/* Empties the caches of threads that have neither allocated nor freed since the last call, if the
 * process has many; at_once: of all threads that sleep. What they held are free pages of jemalloc's
 * then. Returns the number of threads. Worker thread; takes the purge lock for each. */
unsigned int mt_jemalloc_caches_empty(bool at_once);

/* The calling thread, inside jemalloc, may have a cache: tells where it lies. A bin of it is
 * filled; an event comes, of a thread that may only free; it gets a cache, or goes without. thread:
 * jemalloc's. */
void mt_jemalloc_caches_note_fill(void *thread, void *bin, unsigned int size_class);
void mt_jemalloc_caches_note(void *thread);
void mt_jemalloc_caches_note_begin(bool has_one);

/* A process or thread begins that uses the thread-local storage of another one, which may sleep
 * meanwhile: from now on no cache is emptied. Any thread, async-signal-safe. */
void mt_jemalloc_caches_note_shared(void);

/* Returns once the calling thread may use its cache. Any thread, async-signal-safe. Keeps errno. */
void mt_jemalloc_caches_wait(void);

/* In a forked child, which has no worker: opens the gate. */
void mt_jemalloc_caches_fork_child(void);

#endif
