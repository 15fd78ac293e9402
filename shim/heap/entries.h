/* heap/entries.h -- how the exported heap family is served; set by
 * heap/heap.c, read by heap/entries.c at each call. */
#ifndef MT_HEAP_ENTRIES_H
#define MT_HEAP_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/backend.h"

/* The same functions, which also know what to do with a block of the bootstrap arena. */
const struct mt_heap_ops *mt_late_free_ops(const struct mt_heap_ops *ops);

/* Serves every call from now on through these functions, by way of mt_late_free_ops where the
 * bootstrap arena was used. */
void mt_heap_serve(const struct mt_heap_ops *ops);

/* The same for the functions that make blocks alone. Any thread. */
void mt_heap_serve_makers(const struct mt_heap_ops *ops);

/* Serves them from the embedded jemalloc, by a direct jump unless it has just begun or grown. */
void mt_heap_serve_jemalloc(void);

/* The embedded jemalloc has grown: the next maker comes by the cold path, once. Async-signal-safe,
 * lock-free. */
void mt_heap_note_growth(void);

/* Over the embedded jemalloc: until it is switched off, every maker comes by the cold path and each
 * 512th of a thread asks mt_jemalloc_watched. Some 10 instructions a call more. Any thread.
 */
void mt_heap_watch(bool on);

/* Our own functions, whatever their names are bound to in this process. */
#define X(type, name, params, args) type mt_own_##name params __attribute__((visibility("hidden")));
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
MT_HEAP_COMPOSED(X)
#undef X
int mt_own_malloc_trim(size_t pad) __attribute__((visibility("hidden")));

/* Beside the function itself. In assembler: the alias of a function that the compiler knows would
 * need all its attributes. */
#define MT_HEAP_OWN(name)                                                                          \
	__asm__(".globl mt_own_" #name "\n.hidden mt_own_" #name "\n.set mt_own_" #name ","        \
		" " #name);

/* Whether a call of malloc by its name does not reach ours: the program itself or a library loaded
 * before us brings its own along, or valgrind has put another one in its place. Calls malloc and
 * free. Only while a backend is chosen: until then our own malloc answers from the bootstrap arena.
 */
bool mt_heap_is_shadowed(void);

/* The table for a process whose malloc is not ours (mt_backend_is_shadowed). aligned_alloc and
 * posix_memalign call memalign by its public name; the rest are the functions of the next allocator
 * in line. */
const struct mt_heap_ops *mt_heap_shadowed_ops(void);

/* Functions that count what passes through them, over glibc; and functions that pass on, over other
 * allocators. Both look at growth now and then. */
const struct mt_heap_ops *mt_counted_ops(void);
const struct mt_heap_ops *mt_uncounted_ops(void);

#endif
