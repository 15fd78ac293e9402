/* python/gc_thread.h -- runs the queued collection on a thread of the shim, if Python's main
 * thread does not come to run it. Owns two threads. One sleeps until it is asked: a thread of the
 * program starts it, so it has the program's descriptor table, which finalizers need. It starts the
 * other for one collection. That one takes the GIL as any C thread may, in the main interpreter.
 * Python may end or hang it at the interpreter's end, so it holds nothing else, and no thread waits
 * for it without a limit. The program's code runs on it: it counts as a thread of the program.
 * Signals are blocked in both. Takes no lock, except `python` while it looks for functions. */
#ifndef MT_PYTHON_GC_THREAD_H
#define MT_PYTHON_GC_THREAD_H

#include <stdbool.h>

/* Starts the thread that sleeps, unless it runs. may_enter: called before a collecting thread uses
 * Python; false: it leaves Python alone. collect: called with the GIL. On a thread of the program,
 * not inside the allocator. */
void mt_gc_thread_start(bool (*may_enter)(void), void (*collect)(void));

/* Returns whether the thread that sleeps runs. */
bool mt_gc_thread_runs(void);

/* Ends it, and waits up to 1 s for its end. Worker thread. */
void mt_gc_thread_stop(void);

/* Has a new thread collect once, unless one still waits for the GIL or collects. Returns false
 * if nobody can start one. Does not wait. Any thread. */
bool mt_gc_thread_ask(void);

/* Waits up to 1 s while such a thread is between may_enter and its thread state. The pending call
 * of Python calls it, so that the interpreter cannot end in between: Python runs its pending calls
 * before it ends. */
void mt_gc_thread_let_enter(void);

/* Forgets both threads in a forked child. */
void mt_gc_thread_fork_child(void);

#endif
