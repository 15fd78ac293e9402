/* python/lines.h -- a look at the Python lines that allocate, on request of mtctl (`mtctl sites
 * --python`): starts tracemalloc, reads it some times, the last time at the end, stops it, and
 * writes the sums beside the stats file (core/dump_layout.h). All of it runs in pending calls on
 * Python's main thread; the worker thread keeps the time. Tracing ends at the end of the look's
 * time also if the main thread does not run Python then, and where mtctl has ended meanwhile.
 * Owns one look at a time. Only the worker thread may call. Takes no lock of its own. */
#ifndef MT_PYTHON_LINES_H
#define MT_PYTHON_LINES_H

#include <stdint.h>

#include "core/stats_layout.h"

/* Begins a look, or ends the one that runs. The outcome comes as a file. Returns
 * MT_ERR_NOT_AVAILABLE while another look runs, MT_ERR_INVALID or MT_ERR_RANGE for a value that is
 * not valid. */
enum mt_err mt_lines_request(const struct mt_request *request);

/* Returns when to call again, in ns of CLOCK_MONOTONIC; UINT64_MAX: never. */
uint64_t mt_lines_tick(uint64_t now_ns);

/* Forgets the look in a forked child, and takes tracemalloc out of the child's way. */
void mt_lines_fork_child(void);

#endif
