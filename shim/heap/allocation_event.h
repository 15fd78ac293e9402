/* heap/allocation_event.h -- allocation events of the program: every MB that a thread allocates
 * over jemalloc and every 4 MB over glibc, from inside malloc once its block is made. pressure/
 * listens: it compares the heap with the limit. Without a listener an event costs one load. Keeps
 * errno. */
#ifndef MT_HEAP_ALLOCATION_EVENT_H
#define MT_HEAP_ALLOCATION_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/attr.h"

struct mt_allocation_listener {
	/* The calling thread has allocated so many bytes since its last event. True: run is due. */
	bool (*note)(uint64_t fresh_bytes);
	/* Takes its time; none of the allocator's locks is held and none of ours. */
	void (*run)(uint64_t fresh_bytes);
	/* The calling thread has freed a block of 32 MB or more. */
	void (*freed_large)(void);
	/* A cleanup has returned free memory. */
	void (*purged)(void);
};

/* Once, before the process has a second thread of ours. listener: never freed. */
void mt_allocation_event_listen(const struct mt_allocation_listener *listener);

/* Over jemalloc: the calling thread has freed a block of 32 MB or more, or realloc has cut off as
 * much. */
void mt_allocation_event_freed_large(void);

/* The calling thread has taken so many more bytes of pages for Python's objects. */
void mt_allocation_event_objects(uint64_t bytes);

/* The calling thread has ever allocated so many bytes. Returns how many since its last event. */
uint64_t mt_allocation_event_note(uint64_t allocated_bytes);

/* ---- who allocates ---- */

struct mt_allocation_caller {
	uintptr_t address;      /* return address of the call; 0: none yet */
	const uintptr_t *frame; /* where the stack of its function begins, while the call lasts */
};

/* Where the calling thread last called the heap family, while callers are noted; else of before. */
extern MT_TLS struct mt_allocation_caller mt_allocation_caller;

/* Has each call that makes a block write its caller there; or no longer. Over the embedded
 * jemalloc; else it does nothing. One thread at a time. */
void mt_allocation_event_note_callers(bool wanted);
bool mt_allocation_event_wants_callers(void);

/* For the allocator: calls changed() at each change. Before the process has a second thread of
 * ours. */
void mt_allocation_event_offer_callers(void (*changed)(void));

/* A cleanup has purged the heap. Any thread. */
void mt_allocation_event_purged(void);

#endif
