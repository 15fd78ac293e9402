/* heap/dlsym.c -- see heap/entries.h. The jumps that leave the caller's return address where the
 * real dlsym looks for it are in dlsym_entries.S. Neither tables of pointers nor functions of libc:
 * they may not be relocated yet. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/attr.h"
#include "sys/loader.h"

#pragma GCC visibility push(hidden)
#include "heap/entries.h"
#include "core/init.h"

extern const char own_code[] __asm__("mt_dlsym_replace");
#pragma GCC visibility pop

#define PAIR(first, second) ((first) << 8 | (second))

/* Most names are none of the family's: two letters tell. */
static bool may_be_heap(const char *name)
{
	switch (name[0] ? PAIR(name[0], name[1]) : 0) {
	case PAIR('m', 'a'):
	case PAIR('m', 'e'):
	case PAIR('c', 'a'):
	case PAIR('r', 'e'):
	case PAIR('f', 'r'):
	case PAIR('a', 'l'):
	case PAIR('p', 'o'):
	case PAIR('p', 'v'):
	case PAIR('m', 'l'):
	case PAIR('m', 'p'):
	case PAIR('p', 'k'):
	case PAIR('v', 'a'):
	case PAIR('s', 'b'):
	case PAIR('b', 'r'):
	case PAIR('_', '_'):
		return true;
	default:
		return false;
	}
}

/* Our function of this name; NULL if it is none of the family. */
static const void *own_function(const char *name)
{
#define X(type, function, params, args)                                                            \
	if (mt_loader_is_same(name, #function))                                                    \
		return (const void *)(uintptr_t)mt_own_##function;
	MT_HEAP_ALLOCATING(X)
	MT_HEAP_EXISTING(X)
	MT_HEAP_COMPOSED(X)
	MT_HEAP_CONTROL(X)
	MT_HEAP_PAGE_FLAGS(X)
#undef X
#define X(type, function, params, args)                                                            \
	if (mt_loader_is_same(name, "__libc_" #function))                                          \
		return (const void *)(uintptr_t)mt_own_##function;
	MT_HEAP_LIBC(X)
#undef X
	return NULL;
}

/* An ifunc resolver of another library may ask before the loader has come to us: this word tells.
 */
static bool is_relocated(void)
{
	static const char *const volatile self = own_code;

	return self == own_code;
}

/* Only what is libc's own: another allocator's name, and that of another libc (dlmopen), stay what
 * they are. */
static MT_COLD void *replace_heap(void *handle, const char *name, const char *version)
{
	const void *own = own_function(name);
	int kept;
	void *real;

	if (!own || !is_relocated())
		return NULL;
	kept = errno;
	real = mt_init_uses_jemalloc() ? mt_loader_look_up(handle, name, version) : NULL;
	errno = kept;
	return real && mt_loader_is_libc_function(name, real) ? (void *)(uintptr_t)own : NULL;
}

/* gpu/lookup.c has it. A library that is built without gpu/ (CUDA=0) replaces no name of the
 * driver. */
__attribute__((weak)) void *mt_dlsym_replace_driver(void *handle, const char *name,
						    const char *version, const void *caller)
{
	(void)handle;
	(void)name;
	(void)version;
	(void)caller;
	return NULL;
}

void *mt_dlsym_replace(void *handle, const char *name, const char *version, const void *caller)
{
	if (name[0] == 'c' && name[1] == 'u')
		return mt_dlsym_replace_driver(handle, name, version, caller);
	return may_be_heap(name) ? replace_heap(handle, name, version) : NULL;
}
