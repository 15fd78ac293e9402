#include "heap/jemalloc_move.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "heap/jemalloc_names.h"
#include "heap/jemalloc_pages.h"
#include "heap/purge_lock.h"
#include "sys/os.h"

#define PIECE_BYTES   (4u << 20)
#define PURGE_WAIT_NS (10 * MT_NS_PER_MS)

bool mt_jemalloc_is_move(void *ptr, size_t bytes)
{
	size_t held = je_malloc_usable_size(ptr);

	return held >= MT_JEMALLOC_MOVE_LEAST && bytes > held &&
	       je_xallocx(ptr, bytes, 0, 0) < bytes;
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

static unsigned int arena_of(void *block)
{
	unsigned int index = UINT_MAX;
	size_t length = sizeof(index);

	(void)je_mallctl("arenas.lookup", &index, &length, &block, sizeof(block));
	return index;
}

/* Or jemalloc would count the old block's pages as free and resident, and who reckons with them
 * would think that the limit is far. */
static void purge(unsigned int arena)
{
	if (arena == UINT_MAX || !mt_purge_enter_within(PURGE_WAIT_NS))
		return;
	mt_jemalloc_purge_arena(arena);
	mt_purge_leave();
}

/* The allocation comes before the first byte is copied: if it brings the process near a limit, free
 * memory goes back now. */
void *mt_jemalloc_move(void *ptr, size_t bytes)
{
	size_t held = je_malloc_usable_size(ptr);
	char *old = ptr;
	char *fresh = je_malloc(bytes);
	int kept = errno;
	unsigned int arena;

	if (!fresh)
		return NULL;
	for (size_t at = 0; at < held; at += PIECE_BYTES) {
		size_t piece = held - at < PIECE_BYTES ? held - at : PIECE_BYTES;

		memcpy(fresh + at, old + at, piece);
		drop(old + at, old + at + piece);
	}
	arena = arena_of(old);
	je_free(old);
	purge(arena);
	errno = kept;
	return fresh;
}
