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
#include <stddef.h>
#include <stdint.h>

#include "core/services.h"
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

/* ---- python/frames.c: lines of frames ---- */

/* The lines of the calling thread's Python frames, for the samples of the heap profiler: read from
 * the interpreter's own structures, whose layout is known of CPython 3.11 to 3.14 with a GIL. Owns
 * a mapping of a fixed size in which each line has one address.
 *
 * A thread's own frames stay as they are while it is in a call of malloc, with the GIL or without
 * it: each holds its code, and the code its file name. Every byte is read by the kernel
 * (mt_os_read_own), and each object must have the type that is expected. So a layout that is not as
 * expected costs the lines, and never the program. No function of Python is called but
 * PyGILState_GetThisThreadState, which reads a thread-specific value. Never calls malloc. */

/* Finds the interpreter and maps the table; nothing if there is no interpreter that is known.
 * Worker thread. Calls the loader. */
void mt_frames_prepare(void);

/* Writes up to max addresses of lines to out, the innermost frame first. Returns how many: 0 for a
 * thread without Python, or if another thread adds a line now. Any thread. Addresses are even,
 * and stay valid. */
size_t mt_frames_lines(uintptr_t *out, size_t max);

/* Writes the lines to a file from offset `at` on, after the title MT_LINES_IN_PROFILE: "0x7f12 LINE
 * FILE" each. Nothing if there are none. Returns false if they could not be written in full.
 * Worker thread. */
bool mt_frames_write(int fd, uint64_t at);

/* Writes "FILE:LINE" of an address of a line. Returns false for any other address. Worker
 * thread. */
bool mt_frames_line_text(uintptr_t line, char *out, size_t out_bytes);

/* The lock of the table may be held by a thread that the child does not have. */
void mt_frames_fork_child(void);

/* ---- python/framework.c: caches of frameworks ---- */

/* MT_FRAMEWORK_DECAY_MS: releases what PyTorch's own device cache has held unused for that time.
 * Also empties all frameworks' device caches for another process that is out of device memory.
 * Reads and empties caches in pending calls of Python, without waiting for them. Does nothing if
 * several processes train together (WORLD_SIZE > 1): one process that flushes makes all others
 * wait. Owns the pending call and the last figures. Only the worker thread may call. Takes no lock
 * of its own. */

/* Queues a reading if one is due. Returns when to call again, in ns of CLOCK_MONOTONIC;
 * UINT64_MAX: never. */
uint64_t mt_framework_tick(uint64_t now_ns);

/* Returns the bytes that PyTorch's cache held unused on a device at the last reading. 0: the device
 * is unknown, or the reading is older than 10 s. */
uint64_t mt_framework_idle_bytes(int device);

/* Queues a call that empties the frameworks' device caches, unless a call is queued. Returns
 * whether such a call is queued. */
bool mt_framework_empty(void);

/* Returns the state of that call. *out_frameworks: whose caches it has emptied, bits of enum
 * mt_framework_bit; written for MT_CACHES_EMPTIED. */
enum mt_caches_state mt_framework_emptied(uint32_t *out_frameworks);

/* Resets the module in a forked child. */
void mt_framework_fork_child(void);

/* ---- python/lines.c: a look at the lines that allocate ---- */

/* A look at the Python lines that allocate, on request of mtctl (`mtctl sites --python`): starts
 * tracemalloc, reads it some times, the last time at the end, stops it, and writes the sums beside
 * the stats file (core/dump_layout.h). All of it runs in pending calls on Python's main thread; the
 * worker thread keeps the time. Tracing ends at the end of the look's time also if the main thread
 * does not run Python then, and where mtctl has ended meanwhile. Owns one look at a time. Only the
 * worker thread may call. Takes no lock of its own. */

/* Begins a look, or ends the one that runs. The outcome comes as a file. Returns
 * MT_ERR_NOT_AVAILABLE while another look runs, MT_ERR_INVALID or MT_ERR_RANGE for a value that is
 * not valid. */
enum mt_err mt_lines_request(const struct mt_request *request);

/* Returns when to call again, in ns of CLOCK_MONOTONIC; UINT64_MAX: never. */
uint64_t mt_lines_tick(uint64_t now_ns);

/* Forgets the look in a forked child, and takes tracemalloc out of the child's way. */
void mt_lines_fork_child(void);

#endif
