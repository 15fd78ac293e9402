/* python/eval_breaker.h -- has Python's main thread look at its pending calls. CPython 3.9 to 3.12
 * notices a call that another thread has queued only when the main thread takes the interpreter's
 * lock, and a loop that nobody disturbs never does. So the word that the interpreter looks at
 * between bytecodes, the eval breaker of the main interpreter, is set as CPython sets it from
 * threads without the lock. Set for nothing it costs the interpreter one look at what there is to
 * do. 3.8, 3.13 and later set it themselves. No signal is sent and no thread of Python's is made.
 */
#ifndef MT_PYTHON_EVAL_BREAKER_H
#define MT_PYTHON_EVAL_BREAKER_H

#include <stdatomic.h>
#include <stdint.h>

/* What the process's main thread does: the kernel does not say; it runs, or waits for a CPU; it
 * waits in a system call. */
enum mt_main_state { MT_MAIN_UNKNOWN, MT_MAIN_RUNS, MT_MAIN_WAITS };

/* Wakes it, unless it waits in a system call, while *call is `queued`: a pending call that is
 * queued keeps the interpreter from its end. Answers what the main thread does. Any thread; lock
 * python_wake. Between mt_python_is_running() and the call's end. */
enum mt_main_state mt_python_wake(const _Atomic uint32_t *call, uint32_t queued);

/* The pending call, on the main thread, once *call is no longer `queued`: nobody touches the
 * interpreter for it after this. */
void mt_python_wake_end(void);

void mt_python_wake_fork_child(void);

#endif
