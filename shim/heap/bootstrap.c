/* heap/bootstrap.c -- memory for the few calls that come before a backend can be chosen: from
 * inside dlsym while we look for the next allocator, or before libc has set environ (a program's
 * preinit_array). Handed out once from a fixed arena, never taken back; what that has no room for
 * is mapped by itself. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "heap/alignment.h"
#include "heap/backend.h"
#include "sys/os.h"

#define BOOT_BYTES (256 * 1024)
#define FAR_BLOCKS 64 /* that are mapped by themselves, at most */

struct boot_head {
	size_t bytes;
	size_t zero; /* keeps blocks 16-byte aligned, as malloc must */
};

static _Alignas(64) unsigned char arena[BOOT_BYTES];
static _Atomic size_t arena_used;

/* Who asks about a block has it from us: no ordering is needed to find it here. */
static struct {
	_Atomic uintptr_t from;
	_Atomic uintptr_t to;
} far_blocks[FAR_BLOCKS];
static _Atomic unsigned int far_count;

static bool is_far(const void *ptr)
{
	unsigned int count = atomic_load_explicit(&far_count, memory_order_relaxed);
	uintptr_t at = (uintptr_t)ptr;

	for (unsigned int i = 0; i < count && i < FAR_BLOCKS; i++)
		if (at >= atomic_load_explicit(&far_blocks[i].from, memory_order_relaxed) &&
		    at < atomic_load_explicit(&far_blocks[i].to, memory_order_relaxed))
			return true;
	return false;
}

bool mt_bootstrap_owns(const void *ptr)
{
	const unsigned char *at = ptr;

	return (at >= arena && at < arena + BOOT_BYTES) || is_far(ptr);
}

bool mt_bootstrap_used(void)
{
	return atomic_load_explicit(&arena_used, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&far_count, memory_order_relaxed) != 0;
}

bool mt_bootstrap_is_scarce(void)
{
	return atomic_load_explicit(&arena_used, memory_order_relaxed) > BOOT_BYTES / 2 ||
	       atomic_load_explicit(&far_count, memory_order_relaxed) != 0;
}

void mt_bootstrap_take_back(void *block)
{
	size_t begin = (size_t)((unsigned char *)block - arena) - sizeof(struct boot_head);
	struct boot_head head;
	size_t end;

	if ((unsigned char *)block < arena + sizeof(head) ||
	    (unsigned char *)block >= arena + BOOT_BYTES)
		return;
	memcpy(&head, arena + begin, sizeof(head));
	end = (begin + sizeof(head) + head.bytes + 15) & ~(size_t)15;
	/* relaxed: a counter. Only while it is the last: then what is zeroed here is nobody's. */
	if (atomic_load_explicit(&arena_used, memory_order_relaxed) != end)
		return;
	memset(arena + begin, 0, end - begin);
	(void)atomic_compare_exchange_strong_explicit(&arena_used, &end, begin,
						      memory_order_relaxed, memory_order_relaxed);
}

static void *map_block(size_t align, size_t size)
{
	const struct boot_head head = {.bytes = size};
	uintptr_t block;
	unsigned int slot;
	unsigned char *area;
	size_t bytes;

	if (__builtin_add_overflow(size, align + sizeof(head), &bytes))
		return NULL;
	area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return NULL;
	slot = atomic_fetch_add_explicit(&far_count, 1, memory_order_relaxed);
	if (slot >= FAR_BLOCKS) {
		(void)munmap(area, bytes);
		return NULL;
	}
	block = ((uintptr_t)area + sizeof(head) + align - 1) & ~(uintptr_t)(align - 1);
	memcpy((void *)(block - sizeof(head)), &head, sizeof(head));
	atomic_store_explicit(&far_blocks[slot].from, (uintptr_t)area, memory_order_relaxed);
	atomic_store_explicit(&far_blocks[slot].to, (uintptr_t)area + bytes, memory_order_relaxed);
	return (void *)block;
}

static void *take_from_arena(size_t align, size_t size)
{
	size_t offset = atomic_load_explicit(&arena_used, memory_order_relaxed);
	const struct boot_head head = {.bytes = size};
	size_t block;

	if (size > BOOT_BYTES || align > BOOT_BYTES)
		return NULL;
	do {
		uintptr_t start = (uintptr_t)arena + offset + sizeof(head);

		block = ((start + align - 1) & ~(uintptr_t)(align - 1)) - (uintptr_t)arena;
		if (block + size > BOOT_BYTES)
			return NULL;
		/* counter, no ordering: whoever gets the block is the only one to touch it */
	} while (!atomic_compare_exchange_weak_explicit(
		&arena_used, &offset, (block + size + 15) & ~(size_t)15, memory_order_relaxed,
		memory_order_relaxed));
	memcpy(arena + block - sizeof(head), &head, sizeof(head));
	return arena + block;
}

static void *boot_memalign(size_t alignment, size_t size)
{
	size_t align = mt_alignment_rounded(alignment < 16 ? 16 : alignment);
	void *block = align ? take_from_arena(align, size) : NULL;

	if (align && !block)
		block = map_block(align, size);
	if (!block)
		errno = align ? ENOMEM : EINVAL;
	return block;
}

static void *boot_aligned_alloc(size_t alignment, size_t size)
{
	if (mt_alignment_is_refused(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	return boot_memalign(alignment, size);
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
	/* the arena begins as zeroes, and no block is handed out twice */
	return boot_malloc(bytes);
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

static int boot_posix_memalign(void **out, size_t alignment, size_t size)
{
	void *fresh;

	if (alignment < sizeof(void *) || !mt_alignment_is_power(alignment))
		return EINVAL;
	fresh = boot_memalign(alignment, size);
	if (!fresh)
		return ENOMEM;
	*out = fresh;
	return 0;
}

static void boot_free(void *ptr)
{
	(void)ptr;
}

const struct mt_heap_ops mt_bootstrap_ops = {
#define X(type, name, params, args) .name = boot_##name,
	MT_HEAP_MAKERS(X) MT_HEAP_KEEPERS(X)
#undef X
};
