/* pressure/growth_sites.h -- where the heap grows while its limit is near: each time it is larger
 * than before by a step, the thread that allocates notes the lines of its Python frames, or without
 * Python the caller of malloc, if the embedded jemalloc serves.
 * Memory that is freed and used again costs nothing and counts nothing. Owns a table of a fixed
 * size. Takes no lock: a thread that meets another one in the table leaves its bytes unattributed.
 * Never allocates. */
#ifndef MT_PRESSURE_GROWTH_SITES_H
#define MT_PRESSURE_GROWTH_SITES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dump_layout.h"

/* ---- any thread, at the end of a malloc call ---- */

/* Counts allocated bytes. Returns whether mt_growth_sites_note is due. */
bool mt_growth_sites_count(uint64_t allocated_bytes);

/* Compares the heap with the last time, and notes the lines if it has grown. Keeps errno. */
void mt_growth_sites_note(void);

/* ---- worker thread ---- */

/* Begins to watch; does nothing if it watches. step_bytes: growth that is worth a note. The
 * lines are known once mt_interpreter_prepare_lines has run. */
void mt_growth_sites_start(uint64_t step_bytes);

/* Ends it, and forgets what was noted. */
void mt_growth_sites_stop(void);

/* If the heap has become smaller by a quarter, what was noted shrinks with it: which of it was
 * freed is not known. */
void mt_growth_sites_settle(void);

/* Fills the sites, largest first, sites_count and unknown_bytes. */
void mt_growth_sites_read(struct mt_last_file *out);

/* Forgets all in a forked child. */
void mt_growth_sites_fork_child(void);

#endif
