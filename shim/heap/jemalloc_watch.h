/* heap/jemalloc_watch.h -- growth of a forked child over the embedded jemalloc, which serves it
 * from inherited memory and maps nothing. */
#ifndef MT_HEAP_JEMALLOC_WATCH_H
#define MT_HEAP_JEMALLOC_WATCH_H

/* In a forked child: the calls of its threads are watched until it has a worker thread. */
void mt_jemalloc_watch_child(void);

/* Every so many allocations of a thread of such a child: starts the worker thread once its threads
 * have allocated as much as makes a program look at itself. Called by the thread that allocated,
 * after the allocator has returned. Keeps errno. */
void mt_jemalloc_watched(void);

#endif
