/* core/sweep.h -- removes from our folder what processes have left that ended without removing it:
 * by a signal, or by a system call of their own. Only names of our own pid namespace, and only
 * where /proc shows it; the files of a living process stay, also of one that has got the pid of
 * another since. Worker thread, or the ending
 * thread; no lock held. Never allocates, touches no file that it does
 * not remove. */
#ifndef MT_CORE_SWEEP_H
#define MT_CORE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

/* folder: a descriptor from mt_files_open_folder. */
void mt_sweep_at_start(int folder);

/* At each tick. All processes that share a folder sweep it once in 2 s together; 1,000 living ones
 * cost 3 ms then. Up to 20 ms at a time; what is left is for the next tick. */
void mt_sweep_at_tick(uint64_t now_ns);

/* The process ends and has files of its own: removes what children left that a signal ended just
 * before, for up to 20 ms. has_children: it has forked, and does not wait for its turn. On the ending
 * thread. */
void mt_sweep_at_end(bool has_children);

#endif
