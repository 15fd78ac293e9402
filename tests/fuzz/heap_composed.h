/* heap_composed.h -- see heap_composed.c. */
#ifndef FUZZ_HEAP_COMPOSED_H
#define FUZZ_HEAP_COMPOSED_H

#include "heap/backend.h"

/* The heap that is tried now. */
extern const struct mt_heap_ops *fuzz_heap;

void *fuzz_reallocarray(void *ptr, size_t count, size_t size);
void *fuzz_valloc(size_t size);
void *fuzz_pvalloc(size_t size);
void fuzz_free_sized(void *ptr, size_t size);
void fuzz_free_aligned_sized(void *ptr, size_t alignment, size_t size);

#endif
