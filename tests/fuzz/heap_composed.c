/* heap_composed.c -- the members of the heap family that are made of the others, over the heap that
 * is tried. */
#include "heap_composed.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#define reallocarray          fuzz_reallocarray
#define valloc                fuzz_valloc
#define pvalloc               fuzz_pvalloc
#define free_sized            fuzz_free_sized
#define cfree                 fuzz_cfree
#define free_aligned_sized    fuzz_free_aligned_sized
#define malloc(size)          fuzz_heap->malloc(size)
#define realloc(ptr, size)    fuzz_heap->realloc(ptr, size)
#define memalign(align, size) fuzz_heap->memalign(align, size)
#define free(ptr)             fuzz_heap->free(ptr)
#include "shim/heap/composed.c"

/* For mt_heap_is_shadowed, which is not tried here; heap/entries.c would take the fuzzer's malloc.
 */
bool mt_heap_was_called(void)
{
	return true;
}
