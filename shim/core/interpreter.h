/* core/interpreter.h -- what other components may ask of the Python interpreter in this process. The
 * answers come from python/. Any thread; no lock. */
#ifndef MT_CORE_INTERPRETER_H
#define MT_CORE_INTERPRETER_H

#include <stdbool.h>
#include <stdint.h>

struct mt_interpreter_ops {
	bool (*is_running)(void);
	bool (*collect_soon)(void (*flush_thread)(void));
	void (*hurry)(void);
	uint64_t (*framework_idle_bytes)(int device);
};

/* python/ answers from now on. ops: never freed. */
void mt_interpreter_set(const struct mt_interpreter_ops *ops);

/* Whether there is a Python here that can be asked. */
bool mt_interpreter_is_running(void);

/* Queues a collection and waits for nothing. flush_thread (may be NULL) runs after it on the same
 * thread. Opens no file, looks nothing up: safe inside malloc once the block is made. False: not
 * queued, since one is under way, Python has not been found yet, or pages may be shared with forked
 * processes. */
bool mt_interpreter_collect_soon(void (*flush_thread)(void));

/* Makes a queued collection known to the interpreter. Worker thread. */
void mt_interpreter_expedite(void);

/* Bytes that PyTorch's cache held unused on a device at the last look; 0: nobody looks. */
uint64_t mt_interpreter_framework_idle_bytes(int device);

#endif
