/* python/tracing.h -- starts, reads and stops tracemalloc in this process, by CPython's C API.
 *
 * While it traces, a thin layer of the shim's lies before tracemalloc in the domains MEM and OBJ.
 * It can take tracemalloc out of the way at any moment and from any thread, without the GIL: from
 * then on blocks pass by it, and its tables no longer change. The domain RAW is not traced: there
 * tracemalloc takes the GIL in each call, which deadlocks with subinterpreters before 3.12 and may
 * do so with locks of the program.
 *
 * Owns the layer and a table of C API functions. Holds no reference to an object between two calls.
 * The calling thread holds the GIL if the comment says so. Clears the errors of its calls; an
 * exception that was set before stays set. Takes no lock but that of the table. */
#ifndef MT_PYTHON_TRACING_H
#define MT_PYTHON_TRACING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dump_layout.h"

/* Finds the functions. Returns MT_LINES_DONE, or why this interpreter cannot be traced. Call it
 * before any other function. Any thread; calls the loader. */
enum mt_lines_outcome mt_tracing_find(void);

/* Returns whether the process has another interpreter than the main one. Any thread. */
bool mt_tracing_has_subinterpreters(void);

/* Returns whether the calling thread is in the main interpreter. A pending call may come in another
 * one: CPython 3.9 to 3.11 queue it for the interpreter that has the GIL. GIL. */
bool mt_tracing_is_here(void);

/* Starts tracing with *depth frames a stack. If the program traces already, it changes nothing,
 * sets *out_is_own and puts the program's depth in *depth. GIL. */
enum mt_lines_outcome mt_tracing_start(uint32_t *depth, bool *out_is_own);

/* Takes tracemalloc out of the way, or does nothing if it is out. Any thread. */
void mt_tracing_bypass(void);

/* What tracemalloc says of itself. GIL. */
struct mt_tracing_size {
	uint64_t tables_bytes;
	uint64_t blocks_count; /* estimated from it */
};
void mt_tracing_measure(struct mt_tracing_size *out);

/* Adds all live blocks to the table of python/line_table.h. reading: its number, from 0.
 * room_bytes: memory that it may take for that. *out_blocks_count: how many there are.
 * MT_LINES_CLEARED if the tracing is not the one that was begun. GIL, which is held until the
 * end. */
enum mt_lines_outcome mt_tracing_read(bool is_own, uint32_t reading, uint64_t room_bytes,
				      uint64_t *out_blocks_count);

/* Stops tracing, if it is still the one that mt_tracing_start has begun. If another library
 * has put hooks before it since, stopping would remove them: tracemalloc then stays bypassed, with
 * empty tables, until a later look. GIL. */
void mt_tracing_stop(void);

/* Bypasses tracemalloc in a forked child. Its Python's first allocation then queues a pending call
 * that stops it, as mt_tracing_stop. Tracing that the program has started goes on. */
void mt_tracing_fork_child(void);

#endif
