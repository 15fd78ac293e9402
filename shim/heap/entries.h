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

/* Notes that a call has reached malloc while the heap starts; see mt_heap_is_shadowed. */
bool mt_heap_was_called(void);

/* ---- heap/dlsym.c ---- */

/* Which names dlsym and dlvsym answer with a function of ours: the driver's (gpu/lookup.h), and
 * those of the heap family if a handle leads to libc's own. A program may ask libc's handle for
 * malloc and give the block to the free that it is linked to (Python's ctypes, P/Invoke, foreign
 * functions of any language), or the other way round. */

#pragma GCC visibility push(hidden)

/* Called by dlsym_entries.S for every handle but RTLD_NEXT; version is NULL for dlsym. The function
 * to answer with, or NULL for "let the real one answer its caller". Keeps errno. Safe before our
 * relocation and inside the start of a sanitizer's runtime. The first question for a name of the
 * heap family starts the heap, as a call of malloc at that moment would. */
void *mt_dlsym_replace(void *handle, const char *name, const char *version, const void *caller);

/* gpu/lookup.c: the answer for names that begin with "cu". */
void *mt_dlsym_replace_driver(void *handle, const char *name, const char *version,
			      const void *caller);

#pragma GCC visibility pop

/* ---- heap/address_space.c ---- */

/* Limits of the address space of this process (RLIMIT_AS, RLIMIT_DATA). What the library reserves
 * or keeps mapped counts against them. Owns a flag: memory is locked. Any thread. */

/* Reads the limits of the process. If one is new, returns reserved address space that was never
 * used, and has jemalloc unmap what is free, from now on too. Returns whether one is. Two system
 * calls. Takes the purge lock. */
bool mt_address_space_follow(void);

/* Returns the lower limit in bytes; UINT64_MAX: there is none. Two system calls. */
uint64_t mt_address_space_bytes(void);

/* For a program that locks all that is mapped: as for a limit, but returns what nobody uses of
 * reserved address space, since it would be locked too. */
void mt_address_space_limit_locked(void);

#endif
