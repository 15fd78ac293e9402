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

/* Reserves up to range_bytes of address space. Returns false if that is not possible. Once. */
bool mt_objects_start(size_t range_bytes);

/* The functions for CPython. context: the struct mt_python_allocator that served the domain
 * before. */
void *mt_objects_malloc(void *context, size_t size);
void *mt_objects_calloc(void *context, size_t count, size_t size);
void *mt_objects_realloc(void *context, void *block, size_t size);
void mt_objects_free(void *context, void *block);

/* From now on several threads may call at a time, and each call takes a lock; or one at a time
 * again. Under the GIL, with no other GIL in the process. */
void mt_objects_share(bool shared);

/* See core/services.h. Any thread. */
void mt_objects_read(struct mt_object_heap_figures *out, bool exact);

/* See core/services.h. */
void mt_objects_limit(uint64_t address_bytes, uint64_t data_bytes);

void mt_objects_fork_child(void);

/* ---- object domains ---- */

/* Puts the heap for small objects (python/objects.h) before CPython's own allocators, for the
 * domains MEM and OBJ. Called while Python starts, before it has a second thread. */

enum { MT_PYTHON_DOMAIN_RAW, MT_PYTHON_DOMAIN_MEM, MT_PYTHON_DOMAIN_OBJ };

/* Puts the heap before both domains; the second call changes nothing. Returns NULL, or why the heap
 * cannot serve this Python: a text that stays. */
const char *mt_objects_domains_take(void);

/* Returns whether the heap serves the domain OBJ. */
bool mt_objects_domains_are_taken(void);

#endif
