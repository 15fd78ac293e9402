/* reaper/throttle.h -- the program's growth does not outrun the reaper. Between two looks at a limit, a thread that takes a
 * gigabyte a second fills a small container. So each thread tells, every MB or so, what it has allocated and freed. When much of
 * the room to the limit may be used up the reaper is rung; when all of it may be, the thread waits until the reaper has looked
 * and has returned what is free. The kernel does the same for its own limits, and calls it direct reclaim.
 * How long anybody waits is bounded: MT_PRESSURE_WAIT_MS for one look, and once that was in vain nobody for the same look. After
 * waits in vain, and for looks that were of no use, nobody waits for four times as long. A rest was found right for memory that is
 * taken and freed again; a leap, so much more since the look than that, is let past it to the reaper: growth beyond the limit is over
 * before a rest is. After a leap's own wait leaps rest as well. No lock, no allocation. */
#ifndef MT_THROTTLE_H
#define MT_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#define MT_THROTTLE_STEP_BYTES (1ull << 20) /* less room than that is taken for that much: nobody tells of less */

/* ---- any thread, also from inside malloc once the block is made ---- */

/* The calling thread has allocated and freed so much since it told last. True: mt_throttle_heed. */
bool mt_throttle_note(uint64_t allocated_bytes, uint64_t freed_bytes);

/* Rings the reaper; waits for it where the room is used up. Keeps errno. Not in a child that runs on its parent's memory. */
void mt_throttle_heed(void);

/* ---- the reaper ---- */

/* The calling thread never waits: the reaper, and who it waits for. */
void mt_throttle_exempt(void);

/* Growth has rung since the last look. */
bool mt_throttle_has_rung(void);

/* A look begins: from here on growth is counted anew. Answers what was counted until now, in bytes. */
uint64_t mt_throttle_begin(void);

/* What it has seen: how much growth rings, how much must wait, and how much is a leap. */
void mt_throttle_set(uint64_t ring_bytes, uint64_t stop_bytes, uint64_t leap_bytes);

/* No limit is known, or the reaper leaves: nobody is counted. */
void mt_throttle_off(void);

/* The look was of no use: nobody but leaps rings or waits for that long from now on, nor for four times as long as who waits for it has
 * waited. Before the release. */
void mt_throttle_rest(uint64_t least_ns);

/* It was of use: no rest, nor what is left of an older one. */
void mt_throttle_watch(void);

/* What was free has been returned: who waits goes on. */
void mt_throttle_release(void);

/* How often threads have waited, and for how long in all. */
void mt_throttle_read(uint64_t *out_count, uint64_t *out_ns);

void mt_throttle_fork_child(void);

#endif
