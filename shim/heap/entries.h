/* heap/entries.h -- the table through which the exported malloc family is served. Owns that table.
 * Any thread may call. Takes no lock. */
#ifndef MT_HEAP_ENTRIES_H
#define MT_HEAP_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/backend.h"

/* Serves every call from now on through these functions. Those that take blocks change before those
 * that make them: no thread passes a block of the new ones to the old ones. Any thread. */
void mt_heap_serve(const struct mt_heap_ops *ops);

/* Serves them from the embedded jemalloc. */
void mt_heap_serve_jemalloc(void);

/* Has the next call that makes a block, or frees a large one, check growth (heap/growth.h), once it
 * is done; or no longer. Over the embedded jemalloc. Async-signal-safe, lock-free. */
void mt_heap_event_at_next_call(bool wanted);

/* Whether every call is served through these. */
bool mt_heap_serves(const struct mt_heap_ops *ops);

/* The functions of this library, whatever their names are bound to in this process. */
#define X(type, name, params, args) type mt_own_##name params __attribute__((visibility("hidden")));
MT_HEAP_ALLOCATING(X)
MT_HEAP_EXISTING(X)
MT_HEAP_COMPOSED(X)
MT_HEAP_PAGE_FLAGS(X)
#undef X

/* The addresses alone. */
#define X(type, name, params, args)                                                                \
	extern const char mt_own_##name[] __attribute__((visibility("hidden")));
MT_HEAP_CONTROL(X)
#undef X

/* Defines mt_own_NAME as an alias, in the file of the function. In assembler: a C alias of a
 * function that the compiler knows would need all its attributes. */
#define MT_HEAP_OWN(name)                                                                          \
	__asm__(".globl mt_own_" #name "\n.hidden mt_own_" #name "\n.set mt_own_" #name ","        \
		" " #name);

/* Returns whether a call of malloc by its name does not reach this library: the program itself or a
 * library loaded before us brings its own along, or valgrind has put another one in its place.
 * Calls malloc, and free unless the malloc is the program's own. Only while a backend is chosen. */
bool mt_heap_is_shadowed(void);

/* The table for a process whose malloc is not ours (mt_backend_is_shadowed). aligned_alloc and
 * posix_memalign call memalign by its public name; the rest are the functions of the next allocator
 * in line. */
const struct mt_heap_ops *mt_heap_shadowed_ops(void);

/* Functions that pass on to the next allocator in line, and check growth now and then
 * (heap/passthrough.c). */
const struct mt_heap_ops *mt_passthrough_ops(void);

/* Notes that a call has reached malloc while the heap starts; see mt_heap_is_shadowed. */
bool mt_heap_was_called(void);

#endif
