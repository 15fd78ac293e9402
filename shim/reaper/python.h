/* reaper/python.h -- Python's garbage collector, asked for from outside: only through a pending call, which Python runs on
 * its main thread between two bytecodes, never by taking the GIL from a thread of ours (that can hang at shutdown).
 * A collection honours gc.disable(). Any thread; no lock. */
#ifndef MT_PYTHON_H
#define MT_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/stats_layout.h"

struct mt_python_outcome {
	enum mt_gc_state state;
	uint64_t collected_count;
	uint64_t gc_ns;
};

/* Whether there is a Python here that can be asked. */
bool mt_python_is_running(void);

/* Collects, and waits at most 2 s for the main thread to come by. flush_thread (may be NULL) then runs there too.
 * here: the calling thread is the program's own and may be Python's: the collection then runs in it at once. */
void mt_python_collect(void (*flush_thread)(void), bool here, struct mt_python_outcome *out);

/* A collection that came after its cleanup had stopped waiting; true once for each. */
bool mt_python_came_late(struct mt_python_outcome *out);

/* The process ends: ask nothing of Python any more. */
void mt_python_end(void);
void mt_python_fork_child(void);

#endif
