/* core/object_heap.h -- what the other components know of the heap for small Python objects.
 * python/ fills the functions, heap/ listens to its growth; before that every reply is "none". Any
 * thread may call unless a comment says otherwise. Takes no lock. */
#ifndef MT_CORE_OBJECT_HEAP_H
#define MT_CORE_OBJECT_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct mt_object_heap_figures {
	uint64_t live_bytes;      /* in blocks that Python holds */
	uint64_t used_bytes;      /* in pages with such blocks */
	uint64_t dirty_bytes;     /* in pages without, that are resident: what a purge returns */
	uint64_t allocated_bytes; /* in all pages ever taken, each time it was taken */
	uint64_t freed_bytes;     /* in all pages ever returned by Python's frees; only rises */
};

struct mt_object_heap_ops {
	void (*read)(struct mt_object_heap_figures *out, bool exact);
	uint64_t (*purge)(uint64_t keep_bytes, bool (*enter)(void), void (*leave)(void));
	void (*limit)(uint64_t address_bytes, uint64_t data_bytes);
};

/* Sets the functions. ops: must live as long as the process. */
void mt_object_heap_set(const struct mt_object_heap_ops *ops);

/* Returns whether the functions are set. */
bool mt_object_heap_is_there(void);

/* Reads the figures. exact: false takes live bytes from used ones and the last exact reading; true
 * reads each page (30 us for 100 MB). All 0 if there is no such heap. */
void mt_object_heap_read(struct mt_object_heap_figures *out, bool exact);

/* Returns free pages to the kernel until keep_bytes of them are left. Returns the bytes. enter and
 * leave: called around each step, which a fork must not interrupt; enter returns false: no more. */
uint64_t mt_object_heap_purge(uint64_t keep_bytes, bool (*enter)(void), void (*leave)(void));

/* Follows RLIMIT_AS and RLIMIT_DATA; UINT64_MAX: there is none. Gives up reserved address space
 * that was never used, but for a share of the first. */
void mt_object_heap_limit(uint64_t address_bytes, uint64_t data_bytes);

/* grew: called by a thread of the program that has taken another MB of pages, once its block is
 * made. bytes: since the last call. exceeds: by one that has returned so many pages under
 * RLIMIT_DATA that a purge is due. */
void mt_object_heap_listen(void (*grew)(uint64_t bytes), void (*exceeds)(void));

/* Call the listeners. For python/ alone. */
void mt_object_heap_grew(uint64_t bytes);
void mt_object_heap_exceeds(void);

#endif
