/* core/services.h -- what other components may ask of python/, the interpreter and its heap for
 * objects, and of gpu/, the devices. Owns a pointer to the functions of each; before it is set
 * every reply is "none". Any thread may call unless a comment names the worker thread. Takes no
 * lock. */
#ifndef MT_CORE_SERVICES_H
#define MT_CORE_SERVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/stats_layout.h"

/* A queued call that empties caches. BLOCKED: the main thread, which runs it, is in a system call
 * now. */
enum mt_caches_state { MT_CACHES_QUEUED, MT_CACHES_BLOCKED, MT_CACHES_EMPTIED };

/* The functions of python/: type, name, parameters, arguments, and the reply before they are set.
 * Each is called as mt_interpreter_NAME.
 *
 * is_running: returns whether an initialized Python interpreter is in this process.
 * thread_runs: returns whether a thread of python/ runs, which sleeps all the time. One that
 *     collects does not count: it runs code of the program.
 * wants_thread: returns whether the calling thread, which has allocated, shall start that thread:
 *     it is not the main one, so the program has threads. Calls no loader.
 * collect_soon: queues a garbage collection as a pending call, without waiting. flush_thread: runs
 *     after the collection on the same thread; may be NULL. Returns false if none is queued: one
 *     is under way, Python is not found yet, or pages may be shared with forked processes. Opens
 *     no file and calls no loader: safe at the end of a malloc call.
 * framework_idle_bytes: returns the bytes that PyTorch's cache held unused on a device at the last
 *     reading; 0: unknown.
 * empty_caches: has Python's main thread empty the frameworks' device caches, without waiting and
 *     without a collection. empty_caches returns whether the call is queued; emptied then returns
 *     its state, and *out_frameworks (bits of enum mt_framework_bit) once it has run. Worker
 *     thread.
 * lines: for the samples of the heap profiler: the lines of the calling thread's Python frames as
 *     addresses, the innermost first, and what they are in a file (python/frames.c). Prepare
 *     first. lines: any thread, inside malloc; the others: worker thread.
 * line_text: writes "FILE:LINE" of such an address. Returns false if it is none. */
#define MT_INTERPRETER_FUNCTIONS(X)                                                                \
	X(bool, is_running, (void), (), false)                                                     \
	X(bool, thread_runs, (void), (), false)                                                    \
	X(bool, wants_thread, (void), (), false)                                                   \
	X(bool, collect_soon, (void (*flush_thread)(void)), (flush_thread), false)                 \
	X(uint64_t, framework_idle_bytes, (int device), (device), 0)                               \
	X(bool, empty_caches, (void), (), false)                                                   \
	X(enum mt_caches_state, emptied, (uint32_t * out_frameworks), (out_frameworks),            \
	  MT_CACHES_EMPTIED)                                                                       \
	X(size_t, lines, (uintptr_t * out, size_t max), (out, max), 0)                             \
	X(bool, write_lines, (int fd, uint64_t at), (fd, at), true)                                \
	X(bool, line_text, (uintptr_t line, char *out, size_t out_bytes), (line, out, out_bytes),  \
	  false)

/* The same of those without arguments and reply.
 *
 * start_thread: starts the thread of python/. Where the worker may be started.
 * expedite: makes the interpreter notice a queued collection sooner. Worker thread. */
#define MT_INTERPRETER_CALLS(X)                                                                    \
	X(start_thread)                                                                            \
	X(expedite)                                                                                \
	X(prepare_lines)

struct mt_interpreter_ops {
#define X(type, name, parameters, arguments, none) type(*name) parameters;
	MT_INTERPRETER_FUNCTIONS(X)
#undef X
#define X(name) void (*name)(void);
	MT_INTERPRETER_CALLS(X)
#undef X
};

#define X(type, name, parameters, arguments, none) type mt_interpreter_##name parameters;
MT_INTERPRETER_FUNCTIONS(X)
#undef X
#define X(name) void mt_interpreter_##name(void);
MT_INTERPRETER_CALLS(X)
#undef X

/* Makes python/ reply from now on. ops: must live as long as the process. */
void mt_services_set_interpreter(const struct mt_interpreter_ops *ops);

/* ---- object heap ---- */

/* What the other components know of the heap for small Python objects. python/ fills the functions,
 * heap/ listens to its growth; before that every reply is "none". Any thread may call unless a
 * comment says otherwise. Takes no lock. */

struct mt_object_heap_figures {
	uint64_t live_bytes;      /* in blocks that Python holds */
	uint64_t used_bytes;      /* in pages with such blocks */
	uint64_t dirty_bytes;     /* in pages without, that are resident: what a purge returns */
	uint64_t allocated_bytes; /* in all pages ever taken, each time it was taken */
	uint64_t freed_bytes;     /* in all pages ever returned by Python's frees; only rises */
};

struct mt_object_heap_ops {
	void (*read)(struct mt_object_heap_figures *out, bool exact);
	uint64_t (*purge)(uint64_t keep_bytes, bool (*enter)(void), void (*leave)(void));
	void (*limit)(uint64_t address_bytes, uint64_t data_bytes);
};

/* Sets the functions. ops: must live as long as the process. */
void mt_services_set_object_heap(const struct mt_object_heap_ops *ops);

/* Returns whether the functions are set. */
bool mt_object_heap_is_there(void);

/* Reads the figures. exact: false takes live bytes from used ones and the last exact reading; true
 * reads each page (30 us for 100 MB). All 0 if there is no such heap. */
void mt_object_heap_read(struct mt_object_heap_figures *out, bool exact);

/* Returns free pages to the kernel until keep_bytes of them are left. Returns the bytes. enter and
 * leave: called around each step, which a fork must not interrupt; enter returns false: no more. */
uint64_t mt_object_heap_purge(uint64_t keep_bytes, bool (*enter)(void), void (*leave)(void));

/* Up to this limit address space is left to the program, in bytes: libc's malloc serves it. The
 * embedded jemalloc needs up to twice as much, and 8 MB more. */
#define MT_LIMITED_BYTES (4ull << 30)

/* Follows RLIMIT_AS and RLIMIT_DATA; UINT64_MAX: there is none. Gives up reserved address space
 * that was never used, but for a share of the first if that is above MT_LIMITED_BYTES. */
void mt_object_heap_limit(uint64_t address_bytes, uint64_t data_bytes);

/* grew: called by a thread of the program that has taken another MB of pages, once its block is
 * made. bytes: since the last call; 0: it has returned a MB of them. exceeds: by one that has
 * returned so many pages under RLIMIT_DATA that a purge is due. */
void mt_object_heap_listen(void (*grew)(uint64_t bytes), void (*exceeds)(void));

/* Call the listeners. For python/ alone. */
void mt_object_heap_grew(uint64_t bytes);
void mt_object_heap_exceeds(void);

/* ---- devices ---- */

/* What other components may ask about GPU devices. Until the process uses CUDA, and in a build
 * without gpu/, every reply is "none". */

/* The functions of gpu/: type, name, parameters, arguments, and the reply before they are set. Each
 * is called as mt_devices_NAME.
 *
 * are_used: returns whether CUDA has started in this process, and not only in its parent.
 * are_capturing: returns whether a stream capture is open in this process.
 * have_context: returns whether the calling thread, one of the program, has a current context.
 * thread_runs: returns whether the shim's thread that calls the driver runs.
 * used_bytes: returns the bytes in use, by all processes, on the devices that this process uses:
 *     total - free; 0: unknown. here: the calling thread, one of the program, asks the driver;
 *     else the shim's driver thread does, within 5 s.
 * live_bytes: returns the bytes of device memory that the program holds, without a call of the
 *     driver. Worker thread.
 * rows: sets *out to the table of devices as published last, NULL if there is none, and returns
 *     its number of rows. Worker thread. */
#define MT_DEVICES_FUNCTIONS(X)                                                                    \
	X(bool, are_used, (void), (), false)                                                       \
	X(bool, are_capturing, (void), (), false)                                                  \
	X(bool, have_context, (void), (), false)                                                   \
	X(bool, thread_runs, (void), (), false)                                                    \
	X(uint64_t, used_bytes, (bool here), (here), 0)                                            \
	X(uint64_t, live_bytes, (void), (), 0)                                                     \
	X(uint32_t, rows, (const struct mt_stats_device **out), (out), (*out = NULL, 0))

struct mt_devices_ops {
#define X(type, name, parameters, arguments, none) type(*name) parameters;
	MT_DEVICES_FUNCTIONS(X)
#undef X
};

#define X(type, name, parameters, arguments, none) type mt_devices_##name parameters;
MT_DEVICES_FUNCTIONS(X)
#undef X

/* Makes gpu/ reply from now on; NULL: no longer, in a forked child. ops: must live as long as the
 * process. */
void mt_services_set_devices(const struct mt_devices_ops *ops);

#endif
