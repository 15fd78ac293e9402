/* heap/brk_range.h -- the address range of libc's heap in a process that is or was asleep
 * (heap/asleep.h), by which a block of libc's is told from one of jemalloc's. Owns one atomic word,
 * the length of the range. Any thread may call, also in signal handlers. Takes no lock, never
 * waits, never allocates.
 *
 * While a process is asleep every block that it hands out lies in [base, base + length):
 *  - A thread hands out a block of libc's only after it has seen, in a word that was read after the
 *    block was made, that the range includes the block. If it does not, the thread extends the
 *    range to the program break, by compare-and-swap.
 *  - A block outside the brk heap (a chunk with a mapping of its own, a second arena, a main arena
 *    that falls back to mmap) is not handed out. Only a process that gives the range up may do so:
 *    it never wakes up.
 *  - Waking up freezes the word, by compare-and-swap too. So every block that was handed out before
 *    lies in the frozen range, and no thread can extend it later. A thread that was inside libc's
 *    malloc meanwhile, and whose block lies beyond the frozen range, must return it to libc and
 *    take one from jemalloc.
 *  - jemalloc never gets memory inside the range: its sbrk is refused, and a mapping that the
 *    kernel puts there, after libc has lowered the program break, is not used (heap/jemalloc.c).
 *  - The program's own sbrk may put its memory into the range. No block lies there. */
#ifndef MT_HEAP_BRK_RANGE_H
#define MT_HEAP_BRK_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/atomic.h"

#pragma GCC visibility push(hidden)

/* Begins the range at the program break. Once, before libc's malloc makes its first block. */
void mt_brk_range_begin(void);
bool mt_brk_range_has_begun(void);

enum mt_brk_place {
	MT_BRK_INSIDE,  /* the block may be handed out */
	MT_BRK_FROZEN,  /* beyond the frozen range */
	MT_BRK_OUTSIDE, /* not in the brk heap */
	MT_BRK_EXTENDED /* as MT_BRK_INSIDE, and the range is longer than before */
};

/* Returns where a block lies that libc has just made; extends the range if needed. block: NULL
 * is inside. */
enum mt_brk_place mt_brk_range_add(const void *block);

/* Freezes the range. Returns false if it was given up. */
bool mt_brk_range_freeze(void);

/* Gives the range up: every block is inside from now on. Returns false if it was frozen. */
bool mt_brk_range_give_up(void);
bool mt_brk_range_is_given_up(void);

/* Returns the length in bytes; 0 if the range was given up. */
size_t mt_brk_range_bytes(void);

/* Returns whether the range has a byte of [address, address + bytes). */
bool mt_brk_range_overlaps(const void *address, size_t bytes);

/* ---- hot paths ---- */

extern uintptr_t mt_brk_range_base;
extern _Atomic uintptr_t mt_brk_range_word; /* a length, a multiple of 16; and flags */

/* The end of the frozen range; 0: it is empty; UINTPTR_MAX before it is frozen. A thread that reads
 * it late takes the slow path, which is exact. */
extern uintptr_t mt_brk_range_end;

/* Returns true only if mt_brk_range_add would return MT_BRK_INSIDE. A flag does no harm: the
 * first block beyond the end begins 16 bytes after it. */
static inline bool mt_brk_range_is_inside(const void *block)
{
	return (uintptr_t)block - mt_brk_range_base < mt_load_relaxed(&mt_brk_range_word);
}

/* Returns whether a block may be one of libc's: false for most of jemalloc's. They lie higher, or
 * lower if the kernel fills addresses from below (ulimit -s unlimited). */
static inline bool mt_brk_range_may_have(const void *ptr)
{
	return (uintptr_t)ptr < mt_brk_range_end && (uintptr_t)ptr >= mt_brk_range_base;
}

/* The same, exactly. NULL is no block. */
bool mt_brk_range_has(const void *ptr);

#pragma GCC visibility pop

#endif
