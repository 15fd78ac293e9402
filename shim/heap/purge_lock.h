/* heap/purge_lock.h -- who of ours changes the program's heap behind its back, or walks through it:
 * one at a time, and nobody while the process is copied. A child that was copied in between would
 * have a heap that is half changed, and whose locks nobody gives back. Rank 1. */
#ifndef MT_HEAP_PURGE_LOCK_H
#define MT_HEAP_PURGE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Around as little as possible at once: a fork waits for it. Whoever waits is let in at the
 * leaving. */
void mt_purge_enter(void);
void mt_purge_leave(void);

/* The same for who would rather go on than wait for longer. False: not entered. */
bool mt_purge_enter_within(uint64_t span_ns);

/* Whoever copies the process, before and after. Not for longer than a second: a purge of 100 GB
 * takes the kernel ten and more. False: it goes on all the same, and there is nothing to release.
 */
bool mt_purge_hold(void);
void mt_purge_release(void);

/* The same for a copy whose maker sleeps for as long as the copy lives (CLONE_VFORK without
 * CLONE_VM), and could release nothing meanwhile. Answers the word into which the kernel is to
 * write the copy's id (CLONE_PARENT_SETTID), which it does once the copy is made: until then nobody
 * enters. NULL as false above. made: false where there is no copy after all. */
_Atomic pid_t *mt_purge_hold_until_copied(void);
void mt_purge_end_copy(bool made);

/* In the copy, held or not. */
void mt_purge_forget(void);

/* ---- glibc's trim writes to free blocks first, and so copies pages that are shared with forked
 * processes ---- */

/* At that count of forks (mt_shared_pages_forks) a trim was found to copy nothing. Under the purge
 * lock: whether that still holds; true where there was no fork. */
void mt_purge_allow_trim(uint32_t forks);
bool mt_purge_may_trim(void);

#endif
