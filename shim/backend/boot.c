/* backend/boot.c -- memory for the few calls that come before a backend can be chosen: from inside dlsym while we look
 * for the next allocator, or before libc has set environ. Handed out once from a fixed arena, never taken back. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/backend.h"
#include "base/os.h"

#define BOOT_BYTES (256 * 1024)

struct boot_head {
	size_t bytes;
	size_t zero; /* keeps blocks 16-byte aligned, as malloc must */
};

static _Alignas(64) unsigned char arena[BOOT_BYTES];
static _Atomic size_t arena_used;

bool mt_boot_owns(const void *ptr)
{
	const unsigned char *at = ptr;

	return at >= arena && at < arena + BOOT_BYTES;
}

bool mt_boot_used(void)
{
	return atomic_load_explicit(&arena_used, memory_order_relaxed) != 0;
}

void mt_boot_reset(void)
{
	memset(arena, 0, atomic_load_explicit(&arena_used, memory_order_relaxed));
	atomic_store_explicit(&arena_used, 0, memory_order_relaxed);
}

static void *boot_memalign(size_t alignment, size_t size)
{
	size_t align = alignment < 16 ? 16 : alignment;
	size_t offset = atomic_load_explicit(&arena_used, memory_order_relaxed);
	size_t block;
	struct boot_head head = {.bytes = size};

	if (size > BOOT_BYTES || align > BOOT_BYTES || (align & (align - 1)))
		goto refuse;
	do {
		uintptr_t start = (uintptr_t)arena + offset + sizeof(head);

		block = ((start + align - 1) & ~(uintptr_t)(align - 1)) - (uintptr_t)arena;
		if (block + size > BOOT_BYTES)
			goto refuse;
		/* counter, no ordering: whoever gets the block is the only one to touch it */
	} while (!atomic_compare_exchange_weak_explicit(&arena_used, &offset, (block + size + 15) & ~(size_t)15,
							memory_order_relaxed, memory_order_relaxed));
	memcpy(arena + block - sizeof(head), &head, sizeof(head));
	return arena + block;
refuse:
	errno = ENOMEM;
	return NULL;
}

static void *boot_malloc(size_t size)
{
	return boot_memalign(16, size);
}

static void *boot_calloc(size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return boot_malloc(bytes); /* the arena begins as zeroes, and no block is handed out twice */
}

static size_t boot_malloc_usable_size(void *ptr)
{
	struct boot_head head;

	if (!ptr)
		return 0;
	memcpy(&head, (unsigned char *)ptr - sizeof(head), sizeof(head));
	return head.bytes;
}

static void *boot_realloc(void *ptr, size_t size)
{
	void *fresh = boot_malloc(size);
	size_t old = boot_malloc_usable_size(ptr);

	if (fresh && old)
		memcpy(fresh, ptr, old < size ? old : size);
	return fresh;
}

static void *boot_reallocarray(void *ptr, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return boot_realloc(ptr, bytes);
}

static int boot_posix_memalign(void **out, size_t alignment, size_t size)
{
	void *fresh;

	if (alignment < sizeof(void *) || (alignment & (alignment - 1)))
		return EINVAL;
	fresh = boot_memalign(alignment, size);
	if (!fresh)
		return ENOMEM;
	*out = fresh;
	return 0;
}

static void *boot_valloc(size_t size)
{
	return boot_memalign(mt_os_page_bytes(), size);
}

static void boot_free(void *ptr)
{
	(void)ptr;
}

static void boot_free_sized(void *ptr, size_t size)
{
	(void)ptr;
	(void)size;
}

static void boot_free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
	(void)ptr;
	(void)alignment;
	(void)size;
}

#define boot_aligned_alloc boot_memalign
#define boot_pvalloc       boot_valloc

const struct mt_heap_ops mt_boot_ops = {
#define X(type, name, params, args) .name = boot_##name,
	MT_HEAP_MAKERS(X)
	MT_HEAP_KEEPERS(X)
#undef X
};
