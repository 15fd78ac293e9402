/* heap/glibc.h -- glibc's malloc: its own functions under the names __libc_malloc and so on, the
 * sizes in its chunk headers, the address range of its heap, and the count of live bytes over it.
 * Owns the addresses of those functions, and what the sections name. Any thread may call. Takes the
 * gate of sys/loader.h, once. Never calls dlsym, and never allocates but in mt_glibc_check.
 *
 * Source of the layout: glibc malloc/malloc.c ("Vital statistics"). The word before a block holds
 * the chunk's size with three flag bits; bit 2 marks a chunk with a mapping of its own.
 * malloc_usable_size returns size - 8, or for such a chunk size - 16, until glibc 2.43. */
#ifndef MT_HEAP_GLIBC_H
#define MT_HEAP_GLIBC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/account.h"
#include "heap/backend.h"
#include "sys/atomic.h"
#include "sys/attr.h"

/* ---- the address range of its heap ---- */

/* In a process that is or was asleep (heap/asleep.h), the range by which a block of libc's is told
 * from one of jemalloc's. Owns one atomic word, the length of the range. Any thread may call, also
 * in signal handlers. Takes no lock, never waits, never allocates.
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

#pragma GCC visibility push(hidden)

/* Begins the range at the program break. Once, before libc's malloc makes its first block. */
void mt_glibc_range_begin(void);
bool mt_glibc_range_has_begun(void);

enum mt_brk_place {
	MT_BRK_INSIDE,  /* the block may be handed out */
	MT_BRK_FROZEN,  /* beyond the frozen range */
	MT_BRK_OUTSIDE, /* not in the brk heap */
	MT_BRK_EXTENDED /* as MT_BRK_INSIDE, and the range is longer than before */
};

/* Returns where a block lies that libc has just made; extends the range if needed. block: NULL
 * is inside. */
enum mt_brk_place mt_glibc_range_add(const void *block);

/* Freezes the range. Returns false if it was given up. */
bool mt_glibc_range_freeze(void);

/* Gives the range up: every block is inside from now on. Returns false if it was frozen. */
bool mt_glibc_range_give_up(void);
bool mt_glibc_range_is_given_up(void);

/* Returns the length in bytes; 0 if the range was given up. */
size_t mt_glibc_range_bytes(void);

/* Returns whether the range has a byte of [address, address + bytes). */
bool mt_glibc_range_overlaps(const void *address, size_t bytes);

/* ---- hot paths ---- */

extern uintptr_t mt_glibc_range_base;
extern _Atomic uintptr_t mt_brk_range_word; /* a length, a multiple of 16; and flags */

/* The end of the frozen range; 0: it is empty; UINTPTR_MAX before it is frozen. A thread that reads
 * it late takes the slow path, which is exact. */
extern uintptr_t mt_glibc_range_end;

/* Returns true only if mt_glibc_range_add would return MT_BRK_INSIDE. | 15: a block may begin at
 * the very end of the range, and flags make the word larger than the length. */
static inline bool mt_glibc_range_is_inside(const void *block)
{
	uintptr_t at = (uintptr_t)block - mt_glibc_range_base;

	return (at | 15) < mt_load_relaxed(&mt_brk_range_word);
}

/* Returns whether a block may be one of libc's: false for most of jemalloc's. They lie higher, or
 * lower if the kernel fills addresses from below (ulimit -s unlimited). */
static inline bool mt_glibc_range_may_have(const void *ptr)
{
	return (uintptr_t)ptr < mt_glibc_range_end && (uintptr_t)ptr >= mt_glibc_range_base;
}

/* The same, exactly. NULL is no block. */
bool mt_glibc_range_has(const void *ptr);

#pragma GCC visibility pop

/* ---- its chunks and its functions ---- */

static inline size_t mt_glibc_header(const void *ptr)
{
	return ((const size_t *)ptr)[-1];
}

static inline bool mt_glibc_is_mapped(size_t header)
{
	return header & 2;
}

/* Usable bytes of a chunk without a mapping of its own. */
static inline size_t mt_glibc_heap_usable(size_t header)
{
	return (header & ~(size_t)7) - sizeof(size_t);
}

/* By how many bytes less of a chunk with a mapping of its own is usable: 8; from glibc 2.43 on 0.
 * Written by the first call of mt_glibc_ops. */
extern size_t mt_glibc_mapped_less_bytes;

/* Usable bytes of any block of glibc's, once mt_glibc_ops was called. */
static inline size_t mt_glibc_usable(const void *ptr)
{
	size_t header = mt_glibc_header(ptr);

	return mt_glibc_heap_usable(header) -
	       (mt_glibc_is_mapped(header) ? mt_glibc_mapped_less_bytes : 0);
}

/* Returns glibc's malloc family, whatever stands before it in the order of symbols; NULL if the
 * process has no libc.so.6 with these names. Works before any relocation of the program, before
 * libc sets environ, and inside dlsym. */
const struct mt_heap_ops *mt_glibc_ops(void);

/* Calls glibc's mallopt(3). Does nothing if mt_glibc_ops returns NULL. */
void mt_glibc_mallopt(int parameter, int value);

/* Its M_MMAP_THRESHOLD, in bytes, before it has adapted it, and the largest that it adapts it to
 * (DEFAULT_MMAP_THRESHOLD and DEFAULT_MMAP_THRESHOLD_MAX on 64-bit machines); and its
 * M_TRIM_THRESHOLD. */
#define MT_GLIBC_MMAP_THRESHOLD      (128u << 10)
#define MT_GLIBC_MMAP_THRESHOLD_MOST (32u << 20)
#define MT_GLIBC_TRIM_THRESHOLD      (128 << 10)

/* Notes that the program has set this parameter by mallopt(3) itself, and libc took the value. */
void mt_glibc_note_mallopt(int parameter, int value);

/* Reads environ for the next two functions. Once, by the thread that starts the heap: later
 * another one may call setenv(3). */
void mt_glibc_read_users_parameters(void);

/* Returns whether neither the program nor its user has set what ends the adapting of glibc's
 * thresholds. */
bool mt_glibc_adapts(void);

/* Sets both thresholds and M_ARENA_MAX as they would be if this library had never set them: what
 * the program has set stays, else GLIBC_TUNABLES and MALLOC_*_ decide, else its own values. glibc
 * adapts the thresholds to the mapped blocks that are freed, until one is set: the accounting free
 * does so from now on, by the same rule (mallopt(3), M_MMAP_THRESHOLD). */
void mt_glibc_reset_parameters(void);

/* Calls glibc's malloc_trim(3). Returns its reply. */
int mt_glibc_trim(size_t pad);

/* Another allocator serves, and the program moves the program break: trims leave it alone. The
 * first call takes 20 ms, in which a thread that is inside glibc's malloc leaves it. */
void mt_glibc_leave_break(void);

/* Another allocator serves, and a block of glibc's from before, of so many usable bytes, is freed
 * next. Fills the thread's cache of that size, once in a process; or if the program moves the
 * program break, has glibc's free leave it. */
void mt_glibc_prepare_old_free(size_t bytes);

/* Such a block was freed. Returns whether mt_glibc_trim_old is due: after the first one, and after
 * each MB, or half of what is left. */
bool mt_glibc_note_old_free(size_t bytes);

/* Returns what lies free in glibc's heap to the kernel, if such blocks were freed since the last
 * call. Not if it would write to more in fast bins, and many pages are shared with forked
 * processes. May read a file after a fork. Keeps errno. */
void mt_glibc_trim_old(void);

/* Reads glibc's own figures: walks through the free chunks of each arena under its lock. Returns
 * false, and zeros, before glibc 2.33. A thread of the library holds the purge lock. */
bool mt_glibc_info(struct mt_mallinfo *out);

/* Allocates a few small blocks with `heap`. Returns whether their chunk headers tell the size that
 * malloc_usable_size returns: a build of glibc with tagged or hardened chunks may differ. */
bool mt_glibc_check(const struct mt_heap_ops *heap);

/* The backend for glibc's malloc. The caller provides ops. */
extern const struct mt_backend mt_glibc_backend;

/* ---- counting ---- */

/* Counts live bytes over glibc's malloc: each call adds the block's usable size to the counters of
 * its thread (heap/account.h). Owns the next functions and the event. Any thread may call. Takes
 * no lock but at the first call of a thread. Never allocates. About 30 instructions a pair of
 * malloc and free. */

/* Allocated bytes of a thread between two checks. */
#define MT_GLIBC_EVENT_BYTES (1ull << 20)

/* event: checks growth; by the thread that allocated, after the allocator has returned. Called
 * once, before the heap starts to count. */
void mt_glibc_accounting_use(void (*event)(void));

/* The first allocation of a thread, and each that reaches next_event_bytes: registers the thread
 * and checks growth. Returns block. Keeps errno. */
void *mt_glibc_event(void *block);

/* Counts a block with a mapping of its own. Returns block. */
void *mt_glibc_count_mapped(void *block);

/* Counts bytes as freed, on a thread that may not be registered. */
void mt_glibc_uncount(size_t bytes);

/* Hot paths end in a jump wherever they leave the common case, so that nothing is saved across a
 * call. */
static inline void *mt_glibc_count_bytes(void *block, size_t bytes)
{
	struct mt_thread_counters *counters = &mt_thread_counters;

	if (mt_unlikely(mt_account_bump(&counters->allocated_bytes, bytes) >=
			counters->next_event_bytes))
		return mt_glibc_event(block);
	return block;
}

/* Counts a block of glibc's as allocated; NULL: nothing. Returns block. */
static inline void *mt_glibc_count(void *block)
{
	size_t header;

	if (mt_unlikely(!block))
		return NULL;
	header = mt_glibc_header(block);
	if (mt_unlikely(mt_glibc_is_mapped(header)))
		return mt_glibc_count_mapped(block);
	return mt_glibc_count_bytes(block, mt_glibc_heap_usable(header));
}

/* Functions that count, over glibc's own: for a process that stays on glibc's malloc. */
const struct mt_heap_ops *mt_glibc_accounting_ops(void);

#endif
