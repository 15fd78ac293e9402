/* heap/page_flags.h -- flags of the pages of blocks.
 *
 * What the program sets stays with the pages: madvise, mlock, mprotect, mbind. libc unmaps a large
 * block when it is freed, and the flags are gone. Here the pages serve another block, which must
 * not have them: the mapping of such pages is replaced by a fresh one.
 *
 * Huge pages: what jemalloc maps gets none (MADV_NOHUGEPAGE), since one small block would keep 2 MB
 * resident. A large block has the system's setting, and what the program asks for (MADV_HUGEPAGE).
 * That stays until the pages are purged.
 *
 * Owns the lock page_flags and the ranges that are noted, among what jemalloc has mapped and libc's
 * brk heap. A range that is noted may have lost its flags since. Any thread, also inside jemalloc;
 * mt_page_flags_note also in a signal handler. Keeps errno, but for a purge that fails. */
#ifndef MT_HEAP_PAGE_FLAGS_H
#define MT_HEAP_PAGE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/atomic.h"

/* ---- ranges ---- */

/* A sorted set of address ranges, which may come to contain more than was added: if it has no more
 * room, the new range is joined with its nearest neighbour. For uses where too much costs time, and
 * too little is a fault. Owns the memory that it maps beyond MT_RANGES_FIRST ranges, and keeps it.
 * Takes no lock, keeps errno. The caller protects each set by a lock. */

#define MT_RANGES_FIRST 256u
/* Programs flag a page of each of their coroutines' stacks. The kernel allows 65,530 mappings. */
#define MT_RANGES_MOST 16384u

struct mt_range {
	uintptr_t begin, end;
};

/* Zeroed: empty. Ranges are ascending and do not touch. */
struct mt_ranges {
	uint32_t count;
	uint32_t room;           /* of `mapped` */
	struct mt_range *mapped; /* NULL: they are in `first` */
	struct mt_range first[MT_RANGES_FIRST];
};

static inline struct mt_range *mt_page_ranges_at(const struct mt_ranges *set)
{
	return set->mapped ? set->mapped : (struct mt_range *)(uintptr_t)set->first;
}

/* begin, end: of a range that is not empty. */
void mt_page_ranges_add(struct mt_ranges *set, uintptr_t begin, uintptr_t end);

/* If the set has no more room, the middle of a range stays. */
void mt_page_ranges_remove(struct mt_ranges *set, uintptr_t begin, uintptr_t end);

/* Returns whether the set has an address of the range. */
bool mt_page_ranges_overlap(const struct mt_ranges *set, uintptr_t begin, uintptr_t end);

/* Cuts from both ends of the range what the set does not have. Returns false, and changes nothing,
 * if it has none of it. */
bool mt_page_ranges_clip(const struct mt_ranges *set, uintptr_t *begin, uintptr_t *end);

/* ---- what jemalloc says ---- */

/* jemalloc has mapped or unmapped memory. */
void mt_page_flags_mapped(const void *begin, size_t bytes);
void mt_page_flags_unmapped(const void *begin, size_t bytes);

/* The program has made this system call with success: notes the pages, if it sets such flags.
 * argument: the third one of the call. */
void mt_page_flags_note(long number, long address, long bytes, long argument);

/* The program's large block, or whole pages of it, is free: replaces the mapping where the next
 * owner must not have its flags. The content is lost then. */
void mt_page_flags_freed(void *begin, size_t bytes);

/* Returns whether a page of the block is noted. Any thread, but in a signal handler. */
bool mt_page_flags_has(const void *begin, size_t bytes);

/* Returns free pages to the kernel; they stay mapped, and lose their flags. Returns what madvise
 * does. */
int mt_page_flags_purge(void *begin, size_t bytes);

/* Purged pages serve again. */
void mt_page_flags_used(void *begin, size_t bytes);

/* The same for a large block: the kernel may make its pages huge, unless the process has many
 * ranges of such pages already. The content is lost. */
#define MT_PAGE_FLAGS_LARGE_BYTES ((size_t)4 << 20)
void mt_page_flags_allow_huge(void *begin, size_t bytes);

/* All that jemalloc has mapped: a process from outside may have asked for huge pages. */
void mt_page_flags_all_may_be_huge(void);

/* Pages have moved, by mremap: their flags went with them. */
void mt_page_flags_moved(void *to, const void *from, size_t bytes);

/* Around fork, inside jemalloc's handlers. */
void mt_page_flags_fork_prepare(void);
void mt_page_flags_fork_parent(void);
void mt_page_flags_fork_child(void);

/* How many ranges are replaced when they are free: counter, no ordering. Who frees a block that is
 * noted was told of it after the note. */
extern _Atomic unsigned int mt_page_flags_count;

static inline bool mt_page_flags_any(void)
{
	return mt_load_relaxed(&mt_page_flags_count) != 0;
}

#endif
