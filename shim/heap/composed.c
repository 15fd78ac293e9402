/* heap/composed.c -- the members of the heap family that are made of the others. Each calls them by
 * their public names, as libc's own reallocarray does: if another library's malloc is bound
 * before ours and lacks these names, the block comes from that library and goes back to it. In a
 * file of its own: a compiler that sees our malloc might call it directly. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "heap/backend.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "heap/entries.h"

#define X(type, name, params, args) MT_EXPORT type name params;
MT_HEAP_COMPOSED(X)
#undef X
#define X(type, name, params, args) MT_HEAP_OWN(name)
MT_HEAP_COMPOSED(X)
#undef X

MT_EXPORT void *reallocarray(void *ptr, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(ptr, bytes);
}

MT_EXPORT void *valloc(size_t size)
{
	return memalign(mt_os_page_bytes(), size);
}

MT_EXPORT void *pvalloc(size_t size)
{
	size_t page = mt_os_page_bytes();
	size_t rounded = (size + page - 1) & ~(page - 1);

	if (rounded < size) {
		errno = ENOMEM;
		return NULL;
	}
	return memalign(page, rounded ? rounded : page);
}

/* Only programs that were linked before glibc 2.26 call it. */
MT_EXPORT void cfree(void *ptr)
{
	free(ptr);
}

/* The sizes are what C23 lets a caller promise; a wrong promise must not corrupt the heap, so they
 * are not used. */
MT_EXPORT void free_sized(void *ptr, size_t size)
{
	(void)size;
	free(ptr);
}

MT_EXPORT void free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	free(ptr);
}

/* ---- if another malloc is bound before ours ---- */

static void *aligned_alloc_by_memalign(size_t alignment, size_t size)
{
	return mt_heap_aligned_alloc_by(memalign, alignment, size);
}

static int posix_memalign_by_memalign(void **out, size_t alignment, size_t size)
{
	return mt_heap_posix_memalign_by(memalign, out, alignment, size);
}

/* The other names stay the next allocator's: the program would get those without the shim, too. */
const struct mt_heap_ops *mt_heap_shadowed_ops(void)
{
	static struct mt_heap_ops ops;

	ops = *mt_system_plain_ops();
	ops.aligned_alloc = aligned_alloc_by_memalign;
	ops.posix_memalign = posix_memalign_by_memalign;
	return &ops;
}

/* Addresses mislead: a program that is not position-independent lends its own jump to malloc as the
 * function's address, a recorder that is bound before us passes on to us, and valgrind replaces a
 * function where it is.
 *
 * A malloc of the program's own may not be ready before main: GCL, and so Maxima, maps its heap in
 * main, and crashes in an earlier free. Such a block is kept. */
bool mt_heap_is_shadowed(void)
{
	static void *volatile kept; /* a leak checker finds the block here */
	bool is_ours;

	(void)mt_heap_was_called();
	kept = malloc(1);
	is_ours = mt_heap_was_called();
	if (is_ours || !mt_backend_program_has_malloc()) {
		free(kept);
		kept = NULL;
	}
	return !is_ours;
}
