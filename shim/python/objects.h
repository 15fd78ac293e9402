/* python/objects.h -- a heap for small Python objects: blocks of 16 to 512 bytes in steps of 16,
 * and of four larger sizes up to 1,024, in pages of one size class (python/object_pages.h). Serves
 * the domains MEM and OBJ of CPython's allocators. Larger blocks go to the allocator that served
 * the domain before, and so does every block outside of the range: it may be older than this heap.
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

/* Puts the heap for small objects (python/objects.h) before CPython's own allocators, for the
 * domains MEM and OBJ. Called while Python starts, before it has a second thread. */

enum { MT_PYTHON_DOMAIN_RAW, MT_PYTHON_DOMAIN_MEM, MT_PYTHON_DOMAIN_OBJ };

/* Puts the heap before both domains; the second call changes nothing. Returns false if
 * the heap cannot serve this Python. */
bool mt_objects_domains_take(void);

/* Returns whether the heap serves the domain OBJ. */
bool mt_objects_domains_are_taken(void);

#endif
