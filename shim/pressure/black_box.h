/* pressure/black_box.h -- the last look: while a limit is about to be reached, a file on disk tells
 * what the process holds, how it came to it, and where (core/dump_layout.h, `mtctl last`). It is
 * written from the critical level on, or if growth meets the limit within seconds, again every
 * second, and removed when that is over or the process ends. Only a process that holds an eighth
 * of the usage writes one. Owns the file's copy in memory, mapped when half of the limit is used.
 * Worker thread only. Takes no lock over a file operation. Never calls malloc. */
#ifndef MT_PRESSURE_BLACK_BOX_H
#define MT_PRESSURE_BLACK_BOX_H

#include <stdbool.h>
#include <stdint.h>

struct mt_black_box_sample {
	uint64_t now_ns; /* CLOCK_MONOTONIC */
	uint64_t used_bytes;
	uint64_t limit_bytes; /* 0: unknown */
	bool exact;           /* false: used_bytes is an upper bound */
	bool is_critical;     /* the level of that limit */
	uint64_t own_bytes;   /* resident in this process */
	const char *source;   /* file or setting of the limit */
};

/* Adds a sample: writes the file, removes it, or does neither. */
void mt_black_box_note(const struct mt_black_box_sample *now);

/* Ends the watch and removes the file: the worker ends, or no limit is known. */
void mt_black_box_stop(void);

/* Finds Python's lines for the sites, once, while growth is watched. Only if Python's objects
 * are in our heap, which tells without the loader that there is Python: a thread that holds the
 * loader's lock would stop the worker. Last in a sample. */
void mt_black_box_prepare(void);

void mt_black_box_fork_child(void);

/* ---- growth sites ---- */

/* Where the heap grows while its limit is near: each time it is larger than before by a step, the
 * thread that allocates notes the lines of its Python frames, or without Python the caller of
 * malloc, if the embedded jemalloc serves. Memory that is freed and used again costs nothing and
 * counts nothing. Owns a table of a fixed size. Takes no lock: a thread that meets another one in
 * the table leaves its bytes unattributed. Never allocates. */

/* Counts allocated bytes. Any thread, at the end of a malloc call. Returns whether
 * mt_black_box_sites_note is due. */
bool mt_black_box_sites_count(uint64_t allocated_bytes);

/* Compares the heap with the last time, and notes the lines if it has grown. Keeps errno. */
void mt_black_box_sites_note(void);

#endif
