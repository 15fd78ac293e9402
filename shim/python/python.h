/* python/python.h -- runs Python's garbage collector from outside of Python. A collection runs in a
 * pending call, which Python runs on its main thread between two bytecodes. If the main thread has
 * not come for 2 s, it runs on a thread of its own; the worker never takes the GIL. A collection
 * respects gc.disable() and gc.set_threshold(0), and is skipped if it would copy pages shared with
 * forked processes. Owns one call. Any thread may call. Takes no lock, except
 * python_wake (python/cpython.h). */
#ifndef MT_PYTHON_PYTHON_H
#define MT_PYTHON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/services.h"
#include "core/stats_layout.h"

/* Returns whether an initialised Python interpreter, not at its end, is in this process. */
bool mt_python_is_running(void);

/* Queues function(argument) as a pending call on Python's main thread, without waiting. Returns
 * false if it is not queued. */
bool mt_python_queue(int (*function)(void *), void *argument);

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
