/* python/python.h -- runs Python's garbage collector from outside of Python. A collection runs in a
 * pending call, which Python runs on its main thread between two bytecodes. If the main thread has
 * not come for 2 s, it runs on a thread of its own; the worker never takes the GIL. A collection
 * respects gc.disable() and gc.set_threshold(0), and is skipped if it would copy pages shared with
 * forked processes. Owns one call. Any thread may call. Takes no lock, except python_wake (below).
 */
#ifndef MT_PYTHON_PYTHON_H
#define MT_PYTHON_PYTHON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

struct mt_python_outcome {
	enum mt_gc_state state;
	uint64_t collected_count;
	uint64_t gc_ns;
	uint64_t wait_ns;    /* for the main thread, without gc_ns */
	uint32_t frameworks; /* whose device caches were emptied, bits of enum mt_framework_bit */
	uint32_t frameworks_skipped; /* whose caches a stream capture kept from being emptied */
	bool requested_frameworks;   /* they were to be emptied */
	bool figures_known;          /* the three fields below were read */
	/* objects in Python's own arenas; 0: unknown, or it uses malloc */
	uint64_t blocks_count;
	/* held by PyTorch's device cache, and the part in use; 0: unknown */
	uint64_t framework_reserved_bytes;
	uint64_t framework_allocated_bytes;
};

struct mt_python_options {
	void (*flush_thread)(void); /* runs after the collection on the same thread; may be NULL */
	/* wait 2 s also for a main thread in a system call, as for a request without a caller */
	bool long_wait;
	/* the calling thread is one of the program: collect in it if Python knows it */
	bool here;
	/* empty the frameworks' device caches after the collection */
	bool empty_frameworks;
	bool cuda_used; /* see python/gpu_caches.h */
	/* a retry for caches that a capture kept from being emptied: no further retry follows */
	bool is_retry;
};

/* Returns whether an initialised Python interpreter, not at its end, is in this process. */
bool mt_python_is_running(void);

/* Queues a collection and waits until it has run, up to 2 s. Without long_wait it waits up to 0.2 s
 * while the main thread is in a system call and has run within the last 2 s. If pages are shared
 * with forked processes it only empties the frameworks' caches, if CUDA is used. Fills *out. Not
 * inside the allocator. */
void mt_python_collect(const struct mt_python_options *options, struct mt_python_outcome *out);

/* Queues a collection without waiting; mt_python_take_late returns its outcome. Near a limit malloc
 * calls it at its end. Opens no file and calls no loader. Returns false if none is queued: one
 * is under way, Python is not found yet, or pages may be shared with forked processes. */
bool mt_python_collect_soon(void (*flush_thread)(void));

/* Lets a thread of the shim run a call that has been queued for 2 s. Returns when to call again, in
 * ns of CLOCK_MONOTONIC; UINT64_MAX: at any turn. Worker thread. */
uint64_t mt_python_tick(uint64_t now_ns);

/* Each step of growth asks whether a thread for mt_python_tick shall start. Returns true if none
 * runs, and threads of Python's beside the main one have grown the heap: two of them, or one by 64
 * MB. Only in such programs collections run on any thread anyway. Calls no loader: works inside
 * malloc. */
bool mt_python_wants_thread(void);

/* Starts that thread. On a thread of the program, not inside the allocator. */
void mt_python_start_thread(void);

/* Returns whether that thread runs. */
bool mt_python_thread_runs(void);

/* Ends it, and waits up to 1 s for its end. Worker thread. */
void mt_python_stop_thread(void);

/* Before the worker starts: looks for Python. */
void mt_python_prepare(void);

/* Makes Python's main thread notice a queued collection sooner. Worker thread. */
void mt_python_expedite(void);

/* Queues function(argument) as a pending call on Python's main thread, without waiting. Returns
 * false if it is not queued. */
bool mt_python_queue(int (*function)(void *), void *argument);

/* Fills *out with the outcome of a collection that ran after its cleanup had stopped waiting.
 * Returns true once for each. */
bool mt_python_take_late(struct mt_python_outcome *out);

/* Return whether a capture kept caches from being emptied, also in a late call.
 * mt_python_take_retry returns true once for each. */
bool mt_python_needs_retry(void);
bool mt_python_take_retry(void);

/* Makes mt_python_is_running return false from now on: the process ends. */
void mt_python_stop(void);
/* Resets the module in a forked child. */
void mt_python_fork_child(void);

/* ---- eval breaker ---- */

/* Makes Python's main thread notice a pending call. In CPython 3.9 to 3.12 the main thread notices
 * a call that another thread queued only when it takes the GIL, and a loop in a process with one
 * thread never does. So the shim sets the eval breaker, the word of the main interpreter that the
 * bytecode loop tests, as CPython sets it from threads without the GIL. Set without need it costs
 * the interpreter one test of its pending work. 3.8, 3.13 and later set it themselves. Owns the
 * lock python_wake. Sends no signal, starts no thread, never takes the GIL. */

/* The state of the main thread. */
enum mt_main_state {
	MT_MAIN_UNKNOWN, /* /proc cannot be read */
	MT_MAIN_RUNS,    /* runs, or waits for a CPU */
	MT_MAIN_WAITS    /* waits in a system call */
};

/* Sets the eval breaker if *queue is `queued` and the main thread waits in no system call. A
 * queued pending call keeps the interpreter alive meanwhile. queue: the state of the pending call;
 * call only between mt_python_is_running() and the end of that call. Returns the state of the main
 * thread. Any thread may call. Takes the lock python_wake; opens a file. */
enum mt_main_state mt_python_breaker_set(const _Atomic uint32_t *queue, uint32_t queued);

/* Waits for a mt_python_breaker_set that is under way: after it no thread writes to the interpreter
 * for this call. The pending call itself calls it, on the main thread, once *queue is no longer
 * `queued`. Takes the lock python_wake. */
void mt_python_breaker_call_done(void);

#endif
