/* static_malloc.c -- a program with a malloc of its own that lacks younger names, as programs with
 * an allocator linked in do, and calls those names. Its own free takes nothing but its own blocks.
 * -DMEMALIGN: it has memalign and posix_memalign too. Prints how many calls went well. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK 0x6f776e206865616dull

struct head {
	uint64_t mark;
	size_t bytes;
};

static char arena[64 << 20];
static size_t used;
static char lock;

static void *take(size_t alignment, size_t size)
{
	uintptr_t block;

	while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
		;
	block = ((uintptr_t)arena + used + sizeof(struct head) + alignment - 1) &
		~(uintptr_t)(alignment - 1);
	if (size > sizeof(arena) || block + size > (uintptr_t)arena + sizeof(arena))
		block = 0;
	else
		used = block + size - (uintptr_t)arena;
	__atomic_clear(&lock, __ATOMIC_RELEASE);
	if (block)
		memcpy((void *)(block - sizeof(struct head)), &(struct head){MARK, size},
		       sizeof(struct head));
	else
		errno = ENOMEM;
	return (void *)block;
}

static size_t size_of(void *ptr)
{
	struct head head;

	memcpy(&head, (char *)ptr - sizeof(head), sizeof(head));
	if (head.mark != MARK)
		abort();
	return head.bytes;
}

void *malloc(size_t size)
{
	return take(16, size);
}

void free(void *ptr)
{
	if (ptr)
		(void)size_of(ptr);
}

void *calloc(size_t count, size_t size)
{
	return count && size > SIZE_MAX / count ? NULL : malloc(count * size);
}

void *realloc(void *ptr, size_t size)
{
	size_t old = ptr ? size_of(ptr) : 0;
	void *fresh = malloc(size);

	if (fresh && ptr)
		memcpy(fresh, ptr, old < size ? old : size);
	return fresh;
}

#ifdef MEMALIGN
void *memalign(size_t alignment, size_t size)
{
	return take(alignment < 16 ? 16 : alignment, size);
}
#endif

/* Weak: this libc has none. */
extern void free_sized(void *, size_t) __attribute__((weak));
extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));

/* A block that the program's own free and realloc take. */
static int is_own(void *block, size_t alignment, size_t size)
{
	if (!block || (uintptr_t)block % alignment != 0)
		return 0;
	memset(block, 1, size);
	block = realloc(block, 2 * size);
	free(block);
	return 1;
}

int main(void)
{
	volatile size_t too_many = SIZE_MAX / 2;
	int well = 0;

	well += is_own(reallocarray(NULL, 10, 10), 8, 100);
	well += is_own(reallocarray(malloc(5), 10, 10), 8, 100);
	errno = 0;
	well += !reallocarray(NULL, too_many, 3) && errno == ENOMEM;
	if (free_sized)
		free_sized(malloc(10), 10);
	if (free_aligned_sized)
		free_aligned_sized(malloc(10), 8, 10);
#ifdef MEMALIGN
	void *out = NULL;

	well += is_own(valloc(100), 4096, 100);
	well += is_own(pvalloc(100), 4096, 4096);
	well += is_own(aligned_alloc(64, 128), 64, 128);
	well += posix_memalign(&out, 256, 100) == 0 && is_own(out, 256, 100);
#endif
	printf("%d well\n", well);
	return 0;
}
