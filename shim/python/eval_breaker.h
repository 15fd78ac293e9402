/* python/eval_breaker.h -- makes Python's main thread notice a pending call. In CPython 3.9 to 3.12
 * the main thread notices a call that another thread queued only when it takes the GIL, and a loop
 * in a process with one thread never does. So the shim sets the eval breaker, the word of the main
 * interpreter that the bytecode loop tests, as CPython sets it from threads without the GIL. Set
 * without need it costs the interpreter one test of its pending work. 3.8, 3.13 and later set it
 * themselves. Owns the lock python_wake. Sends no signal, starts no thread, never takes the GIL. */
#ifndef MT_PYTHON_EVAL_BREAKER_H
#define MT_PYTHON_EVAL_BREAKER_H

#include <stdatomic.h>
#include <stdint.h>

/* The state of the main thread. */
enum mt_main_state {
	MT_MAIN_UNKNOWN, /* /proc cannot be read */
	MT_MAIN_RUNS,    /* runs, or waits for a CPU */
	MT_MAIN_WAITS    /* waits in a system call */
};

/* Sets the eval breaker if *call is `queued` and the main thread waits in no system call. A
 * queued pending call keeps the interpreter alive meanwhile. call: the state of the pending call;
 * call only between mt_python_is_running() and the end of that call. Returns the state of the main
 * thread. Any thread may call. Takes the lock python_wake; opens a file. */
enum mt_main_state mt_eval_breaker_set(const _Atomic uint32_t *call, uint32_t queued);

/* Waits for a mt_eval_breaker_set that is under way: after it no thread writes to the interpreter
 * for this call. The pending call itself calls it, on the main thread, once *call is no longer
 * `queued`. Takes the lock python_wake. */
void mt_eval_breaker_call_done(void);

/* Resets the lock in a forked child. */
void mt_eval_breaker_fork_child(void);

#endif
