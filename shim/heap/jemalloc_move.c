#include "heap/jemalloc_move.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "heap/jemalloc_names.h"
#include "heap/jemalloc_pages.h"
#include "heap/page_flags.h"
#include "heap/purge_lock.h"
#include "sys/os.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* in headers from glibc 2.32 on */
#endif

/* of one block, that are moved; the rest is copied */
#define MAPPINGS_MOST 8
#define PIECE_BYTES   (4u << 20)
#define PURGE_WAIT_NS (10 * MT_NS_PER_MS)

#define LEAST_PAGE_BYTES 4096

/* Whether most of a block below MT_JEMALLOC_MOVE_ALWAYS is not resident. Source: mincore(2). */
static bool is_sparse(const void *ptr, size_t bytes)
{
	unsigned char is_resident[MT_JEMALLOC_MOVE_ALWAYS / LEAST_PAGE_BYTES];
	size_t pages = bytes / mt_os_page_bytes(), count = 0;

	mt_assert(pages <= sizeof(is_resident));
	if (mt_raw_syscall(SYS_mincore, ptr, bytes, is_resident) != 0)
		return false;
	for (size_t i = 0; i < pages; i++)
		count += is_resident[i] & 1;
	return count < pages / 2;
}

bool mt_jemalloc_is_move(void *ptr, size_t bytes)
{
	size_t held = je_malloc_usable_size(ptr);

	return held >= MT_JEMALLOC_MOVE_LEAST && bytes > held &&
	       je_xallocx(ptr, bytes, 0, 0) < bytes &&
	       (held >= MT_JEMALLOC_MOVE_ALWAYS || is_sparse(ptr, held));
}

/* The whole pages of [from, to), whose content is needed no more. */
static void drop(char *from, char *to)
{
	uintptr_t page = mt_os_page_bytes();
	uintptr_t first = ((uintptr_t)from + page - 1) / page * page;
	uintptr_t end = (uintptr_t)to / page * page;

	if (end > first)
		(void)madvise((void *)first, end - first, MADV_DONTNEED);
}

/* A page that the program has never written reads as zeros, without becoming resident. */
static bool is_zero(const char *from, size_t bytes)
{
	return !*from && memcmp(from, from + 1, bytes - 1) == 0;
}

/* Zeros are not written if the new pages are fresh: that would make a hole resident. */
static void copy(char *to, const char *from, size_t bytes)
{
	size_t page = mt_os_page_bytes();
	bool is_fresh = madvise(to, bytes / page * page, MADV_DONTNEED) == 0;

	for (size_t at = 0; at < bytes; at += page) {
		size_t piece = bytes - at < page ? bytes - at : page;

		if (!is_fresh || piece < page || !is_zero(from + at, page))
			memcpy(to + at, from + at, piece);
	}
}

/* to: begins at a page */
static void copy_pieces(char *to, char *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
		size_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;

		copy(to + at, from + at, piece);
		drop(from + at, from + at + piece);
	}
}

/* The kernel moves the pages: nothing is copied, and no page faults again. The old range stays
 * mapped and empty, as jemalloc expects. By way of an address that the kernel chooses: a call that
 * names the target unmaps it before it looks at the source, and another thread's mapping could take
 * its place if the source is then refused. more: bytes of the block behind the target, which
 * become part of the same mapping: a block that grows again is then one. Answers 0 or errno;
 * EFAULT: the source is several mappings. Source: mremap(2), MREMAP_DONTUNMAP since Linux 5.7. */
static int move_pages(char *to, char *from, size_t bytes, size_t more)
{
	char *between = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	if (between == MAP_FAILED)
		return errno;
	if (mremap(between, bytes, bytes + more, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED)
		return 0;
	/* does nothing if the target is still mapped */
	(void)mmap(to, bytes + more, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	copy_pieces(to, between, bytes);
	(void)munmap(between, bytes);
	return 0;
}

static bool is_page(const char *address)
{
	return (uintptr_t)address % mt_os_page_bytes() == 0;
}

/* Moves what lies in the first of the source's mappings: a block that was moved once and has grown
 * in place since is several. The border is found by halves. Returns bytes; 0: none can be moved. */
static size_t move_first_mapping(char *to, char *from, size_t bytes, size_t more)
{
	size_t page = mt_os_page_bytes();
	size_t done = 0;
	size_t piece = bytes;

	for (;;) {
		int error =
			move_pages(to + done, from + done, piece, done + piece == bytes ? more : 0);

		if (!error)
			done += piece;
		if ((error && error != EFAULT) || piece == page || done == bytes)
			return done;
		piece = (piece / 2 + page - 1) / page * page;
		if (piece > bytes - done)
			piece = bytes - done;
	}
}

/* The kernel keeps the old range apart from its neighbours if it was itself moved there: a fresh
 * mapping in its place becomes one with them, and the number of mappings stays bounded. */
static void renew(char *from, size_t bytes)
{
	char *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fresh != MAP_FAILED &&
	    mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from) == MAP_FAILED)
		(void)munmap(fresh, bytes);
}

/* A fork in the middle would leave the child the pages where they are between, for ever: it waits.
 */
static size_t move_mappings(char *to, char *from, size_t bytes, size_t more)
{
	bool holds_fork = mt_purge_enter_within(PURGE_WAIT_NS);
	size_t at = 0;

	for (size_t moved = 1, count = 0; moved && at < bytes && count < MAPPINGS_MOST;
	     at += moved, count++)
		moved = move_first_mapping(to + at, from + at, bytes - at, more);
	if (at == bytes)
		renew(from, bytes);
	if (holds_fork)
		mt_purge_leave();
	return at;
}

static void move(char *to, char *from, size_t bytes, size_t more)
{
	size_t moved = 0;

	mt_assert(is_page(to));
	if (is_page(from) && bytes % mt_os_page_bytes() == 0)
		moved = move_mappings(to, from, bytes, more);
	if (moved)
		mt_page_flags_moved(to, from, moved);
	copy_pieces(to + moved, from + moved, bytes - moved);
}

static unsigned int arena_of(void *block)
{
	unsigned int index = UINT_MAX;
	size_t length = sizeof(index);

	(void)je_mallctl("arenas.lookup", &index, &length, &block, sizeof(block));
	return index;
}

/* The allocation comes before the first page is moved: if it brings the process near a limit, free
 * memory goes back now. */
void *mt_jemalloc_move(void *ptr, size_t bytes)
{
	int kept = errno;
	size_t page = mt_os_page_bytes(), held;
	/* the flag is jemalloc's MALLOCX_LG_ALIGN */
	char *fresh = je_mallocx(bytes, __builtin_ctzl(page));
	unsigned int arena;

	if (!fresh)
		return NULL;
	held = je_malloc_usable_size(ptr);
	move(fresh, ptr, held, (je_malloc_usable_size(fresh) - held) / page * page);
	arena = arena_of(ptr);
	je_free(ptr);
	/* otherwise jemalloc counts the old block's pages as dirty, and direct reclaim
	 * overestimates the memory that it can return */
	if (arena != UINT_MAX)
		mt_jemalloc_purge_arena_soon(arena);
	errno = kept;
	return fresh;
}
