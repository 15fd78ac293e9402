/* python/objects.h -- a heap for small Python objects: blocks of 16 to 512 bytes in steps of 16,
 * and of four larger sizes up to 1,024, in pages of one size class. Serves the domains MEM and OBJ
 * of CPython's allocators. Larger blocks go to the allocator that served the domain before, and so
 * does every block outside of the range: it may be older than this heap.
 *
 * The GIL protects it, as CPython's rules for these domains say. If interpreters with a GIL of
 * their own exist, each call takes the lock `objects` (mt_objects_share). The fullest pages are
 * filled first, so that what stays gathers in few pages and other pages become free. Never
 * allocates by itself. */
#ifndef MT_PYTHON_OBJECTS_H
#define MT_PYTHON_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/services.h"

/* PyMemAllocatorEx, which no version of CPython has changed. */
struct mt_python_allocator {
	void *context;
	void *(*malloc)(void *, size_t);
	void *(*calloc)(void *, size_t, size_t);
	void *(*realloc)(void *, void *, size_t);
	void (*free)(void *, void *);
};

void mt_objects_fork_child(void);

/* ---- object domains ---- */

/* Puts the heap for small objects before CPython's own allocators, for the domains MEM and OBJ.
 * Called while Python starts, before it has a second thread. */

enum { MT_PYTHON_DOMAIN_RAW, MT_PYTHON_DOMAIN_MEM, MT_PYTHON_DOMAIN_OBJ };

/* Puts the heap before both domains; the second call changes nothing. Returns false if
 * the heap cannot serve this Python. */
bool mt_objects_domains_take(void);

/* Returns whether the heap serves the domain OBJ. */
bool mt_objects_domains_are_taken(void);

/* ---- python/object_pages.c: pages ---- */

/* Pages of 4 KiB from one reserved address range. Owns the range, a table of struct mt_object_page
 * beside it, and the pages that hold no block.
 *
 * A free page is dirty (resident) or clean (not resident: never used, or purged). Two bit maps say
 * which, so that the lowest page is taken first and a purge meets neighbours together. The thread
 * that may change the heap takes and returns pages; any thread may purge at the same time. Takes no
 * lock. Keeps errno. Never allocates. */

#define MT_OBJECT_PAGE_SHIFT  12
#define MT_OBJECT_PAGE_BYTES  ((size_t)1 << MT_OBJECT_PAGE_SHIFT)
#define MT_OBJECT_PAGE_NONE   UINT32_MAX
#define MT_OBJECT_CLASS_COUNT 36u

/* One page. All zero if it was never used. */
struct mt_object_page {
	void *free;           /* first block of the free list; NULL: the list is empty */
	uint32_t countdown;   /* blocks to free until python/objects.c looks at the page */
	uint32_t floor_count; /* live blocks = countdown + floor_count, modulo 2^32 */
	uint32_t next, prev;  /* neighbours in a list, by index; MT_OBJECT_PAGE_NONE: none */
	uint16_t made_count;  /* blocks that were ever put on the free list since it was taken */
	uint8_t size_class;
	uint8_t list; /* which list of its class it is in */
	bool used;    /* taken */
};

/* Bytes, for statistics; a reader may lag. */
struct mt_object_pages_figures {
	uint64_t used_bytes;     /* in pages that are taken */
	uint64_t dirty_bytes;    /* in dirty pages */
	uint64_t taken_bytes;    /* in pages ever taken */
	uint64_t returned_bytes; /* in pages ever returned */
};

/* The range and the table. Constant after mt_object_pages_start, except `bytes`, which
 * mt_object_pages_shrink lowers. */
struct mt_object_range {
	char *base;
	struct mt_object_page *table;
	size_t bytes; /* reserved */
};

/* Reserves address space, up to range_bytes (whole MB), as much as the process may have. Returns
 * false if it may have none or if the kernel's pages are not 4 KiB. Once, before any other
 * call. */
bool mt_object_pages_start(size_t range_bytes, struct mt_object_range *out);

/* Takes a page. Returns its index, or MT_OBJECT_PAGE_NONE: the range or the memory is exhausted.
 * *out_event_bytes: 0, or what was taken since the last event, once it is a MB. */
uint32_t mt_object_pages_take(uint32_t size_class, uint64_t *out_event_bytes);

/* Returns a page without live blocks. */
void mt_object_pages_return(uint32_t index);

/* Returns dirty pages to the kernel, until no more than keep_bytes of them are left. Returns the
 * bytes. Any thread. enter, leave: called around each step, which a fork must not interrupt; a step
 * is left out, with all that follow, if enter returns false. */
uint64_t mt_object_pages_purge(uint64_t keep_bytes, bool (*enter)(void), void (*leave)(void));

/* RLIMIT_DATA is set, and counts writable pages: from now on a purge makes ranges without a block
 * inaccessible, until they are taken again. Any thread. */
void mt_object_pages_limit(uint64_t data_bytes);

/* Calls a listener (core/services.h) if so many pages have come back under such a limit that a
 * purge is due, or another MB of them. Called after a page is returned, without the lock. */
void mt_object_pages_tell_returned(void);

/* Any thread. */
void mt_object_pages_read(struct mt_object_pages_figures *out);

/* Returns the number of the first page that was never taken: no page from it on holds a block. Any
 * thread. */
uint32_t mt_object_pages_top(void);

/* Gives up the address space that no page has used yet, but for spare_bytes, for a program that
 * limits its address space (setrlimit). narrow: called with what is left of the range before the
 * rest goes. Any thread. */
void mt_object_pages_shrink(size_t spare_bytes, void (*narrow)(size_t bytes));

#endif
