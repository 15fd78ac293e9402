/* core/interpreter.h -- what other components may ask of the Python interpreter in this process.
 * Owns a pointer to the functions of python/; before it is set every reply is "none". Any thread
 * may call unless a comment names the worker thread. Takes no lock. */
#ifndef MT_CORE_INTERPRETER_H
#define MT_CORE_INTERPRETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A queued call that empties caches. BLOCKED: the main thread, which runs it, is in a system call
 * now. */
enum mt_caches_state { MT_CACHES_QUEUED, MT_CACHES_BLOCKED, MT_CACHES_EMPTIED };

struct mt_interpreter_ops {
	bool (*is_running)(void);
	bool (*thread_runs)(void);
	bool (*wants_thread)(void);
	void (*start_thread)(void);
	bool (*collect_soon)(void (*flush_thread)(void));
	void (*expedite)(void);
	uint64_t (*framework_idle_bytes)(int device);
	bool (*empty_caches)(void);
	enum mt_caches_state (*emptied)(uint32_t *out_frameworks);
	void (*prepare_lines)(void);
	size_t (*lines)(uintptr_t *out, size_t max);
	bool (*write_lines)(int fd, uint64_t at);
	bool (*line_text)(uintptr_t line, char *out, size_t out_bytes);
};

/* Makes python/ reply from now on. ops: must live as long as the process. */
void mt_interpreter_set(const struct mt_interpreter_ops *ops);

/* Returns whether an initialized Python interpreter is in this process. */
bool mt_interpreter_is_running(void);

/* Returns whether a thread of python/ runs, which sleeps all the time. One that collects does not
 * count: it runs code of the program. */
bool mt_interpreter_thread_runs(void);

/* Returns whether the calling thread, which has allocated, shall start that thread: it is not the
 * main one, so the program has threads. Calls no loader. */
bool mt_interpreter_wants_thread(void);

/* Starts it. Where the worker may be started. */
void mt_interpreter_start_thread(void);

/* Queues a garbage collection as a pending call, without waiting. flush_thread: runs after the
 * collection on the same thread; may be NULL. Returns false if none is queued: one is under way,
 * Python is not found yet, or pages may be shared with forked processes. Opens no file and calls no
 * loader: safe at the end of a malloc call. */
bool mt_interpreter_collect_soon(void (*flush_thread)(void));

/* Makes the interpreter notice a queued collection sooner. Worker thread. */
void mt_interpreter_expedite(void);

/* Returns the bytes that PyTorch's cache held unused on a device at the last reading; 0:
 * unknown. */
uint64_t mt_interpreter_framework_idle_bytes(int device);

/* Has Python's main thread empty the frameworks' device caches, without waiting and without a
 * collection. mt_interpreter_empty_caches returns whether the call is queued;
 * mt_interpreter_emptied then returns its state, and *out_frameworks (bits of enum
 * mt_framework_bit) once it has run. Worker thread. */
bool mt_interpreter_empty_caches(void);
enum mt_caches_state mt_interpreter_emptied(uint32_t *out_frameworks);

/* For the samples of the heap profiler: the lines of the calling thread's Python frames as
 * addresses, the innermost first, and what they are in a file (python/frames.h). Prepare first.
 * mt_interpreter_lines: any thread, inside malloc; the others: worker thread. */
void mt_interpreter_prepare_lines(void);
size_t mt_interpreter_lines(uintptr_t *out, size_t max);
bool mt_interpreter_write_lines(int fd, uint64_t at);
/* Writes "FILE:LINE" of such an address. Returns false if it is none. */
bool mt_interpreter_line_text(uintptr_t line, char *out, size_t out_bytes);

#endif
