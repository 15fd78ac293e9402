/* heap/purge_lock.h -- the lock of threads of the shim that change the program's heap or walk
 * through it: one at a time, and none while the process is copied. A child copied meanwhile would
 * have a half-changed heap, with locks that no thread releases. Owns the lock `purge`. A thread
 * that holds it may take it again: a signal handler may interrupt the holder. Any thread may call.
 */
#ifndef MT_HEAP_PURGE_LOCK_H
#define MT_HEAP_PURGE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Take and release the lock. Hold it briefly: fork waits for it. mt_purge_leave lets a waiting
 * thread take it first. */
void mt_purge_enter(void);
void mt_purge_leave(void);

/* Returns a number that changes each time the worker takes the lock; 0 while it does not have it.
 */
uint32_t mt_purge_worker_hold(void);

/* As mt_purge_enter, but waits up to span_ns. Returns false if the lock is not taken, at once
 * if the calling thread holds it. */
bool mt_purge_enter_within(uint64_t span_ns);

/* Around a copy of the process. mt_purge_hold waits up to span_ns, since a purge of 100 GB can keep
 * the kernel busy for ten seconds or more. Returns false if the lock is not taken: copy all the
 * same, and do not call mt_purge_release. */
bool mt_purge_hold(uint64_t span_ns);
void mt_purge_release(void);

/* As mt_purge_release, before a copy whose parent sleeps while the copy lives (CLONE_VFORK without
 * CLONE_VM), and so could not release the lock. Returns the word into which the kernel writes the
 * copy's id (CLONE_PARENT_SETTID) once the copy is made; until then no thread enters. NULL: a copy
 * is under way already, threads may enter. made: whether there is a copy. */
_Atomic pid_t *mt_purge_release_when_copied(void);
void mt_purge_end_copy(bool made);

/* In the copy: undoes one mt_purge_hold, or resets a lock that the calling thread does not hold. */
void mt_purge_forget(void);

/* ---- glibc's trim writes to free blocks first, and so copies pages that are shared with forked
 * processes ---- */

/* At that count of forks (mt_rss_shared_forks) a trim was found to copy nothing. Under the purge
 * lock: whether that still holds; true if there was no fork. */
void mt_purge_allow_trim(uint32_t forks);
bool mt_purge_may_trim(void);

#endif
