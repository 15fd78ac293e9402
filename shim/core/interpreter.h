/* core/interpreter.h -- what other components may ask of the Python interpreter in this process.
 * Owns a pointer to the functions of python/; before it is set every reply is "none". Any thread
 * may call unless a comment names the worker thread. Takes no lock. */
#ifndef MT_CORE_INTERPRETER_H
#define MT_CORE_INTERPRETER_H

#include <stdbool.h>
#include <stdint.h>

struct mt_interpreter_ops {
	bool (*is_running)(void);
	bool (*collect_soon)(void (*flush_thread)(void));
	void (*expedite)(void);
	uint64_t (*framework_idle_bytes)(int device);
};

/* Makes python/ reply from now on. ops: must live as long as the process. */
void mt_interpreter_set(const struct mt_interpreter_ops *ops);

/* Returns whether an initialized Python interpreter is in this process. */
bool mt_interpreter_is_running(void);

/* Queues a garbage collection as a pending call, without waiting. flush_thread: runs after the
 * collection on the same thread; may be NULL. Returns false where none is queued: one is under way,
 * Python is not found yet, or pages may be shared with forked processes. Opens no file and calls no
 * loader: safe at the end of a malloc call. */
bool mt_interpreter_collect_soon(void (*flush_thread)(void));

/* Makes the interpreter notice a queued collection sooner. Worker thread. */
void mt_interpreter_expedite(void);

/* Returns the bytes that PyTorch's cache held unused on a device at the last reading; 0:
 * unknown. */
uint64_t mt_interpreter_framework_idle_bytes(int device);

#endif
