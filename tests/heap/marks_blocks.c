/* marks_blocks.c -- a malloc wrapper that checks each block it gets back, and ends the process
 * where it did not make that block. MARK=1: a header before each block. MARK=2: a footer behind
 * it, too. MARK=3: only free, which overwrites the block. BY=1: it reaches the next malloc by
 * RTLD_NEXT. BY=3: libc's by its second names. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x6b636f6c62646f6full

#if BY == 3
extern void *__libc_malloc(size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
#define real_malloc   __libc_malloc
#define real_memalign __libc_memalign
#define real_free     __libc_free
static void find(void)
{
}
#else
static void *(*real_malloc)(size_t);
static void *(*real_memalign)(size_t, size_t);
static void (*real_free)(void *);
static void find(void)
{
	if (real_free)
		return;
	*(void **)(void *)&real_malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)(void *)&real_memalign = dlsym(RTLD_NEXT, "memalign");
	*(void **)(void *)&real_free = dlsym(RTLD_NEXT, "free");
}
#endif

#if MARK == 3

void free(void *ptr)
{
	find();
	if (ptr)
		memset(ptr, 0xdd, malloc_usable_size(ptr));
	real_free(ptr);
}

#else

static void fail(const char *text)
{
	(void)!write(2, text, strlen(text));
	_exit(99);
}

/* the last words before the block */
struct head {
	char *base;
	size_t size;
	uint64_t magic, unused;
};

static void *make(size_t alignment, size_t size)
{
	size_t before = alignment > sizeof(struct head) ? alignment : sizeof(struct head);
	struct head *head;
	char *base;

	find();
	if (size > PTRDIFF_MAX) {
		errno = ENOMEM;
		return NULL;
	}
	base = alignment > 16 ? real_memalign(alignment, before + size + 8)
			      : real_malloc(before + size + 8);
	if (!base)
		return NULL;
	head = (struct head *)(void *)(base + before) - 1;
	*head = (struct head){base, size, MAGIC, 0};
	if (MARK == 2)
		memcpy(base + before + size, &head->magic, 8);
	return base + before;
}

static struct head *check(void *ptr)
{
	struct head *head = (struct head *)ptr - 1;
	uint64_t footer = MAGIC;

	if (head->magic != MAGIC)
		fail("wrapper: not a block of mine\n");
	if (MARK == 2)
		memcpy(&footer, (char *)ptr + head->size, 8);
	if (footer != MAGIC)
		fail("wrapper: the footer was written to\n");
	return head;
}

void *malloc(size_t size)
{
	return make(16, size);
}

void *calloc(size_t count, size_t size)
{
	size_t bytes;
	void *fresh = __builtin_mul_overflow(count, size, &bytes) ? NULL : make(16, bytes);

	return fresh ? memset(fresh, 0, bytes) : NULL;
}

void free(void *ptr)
{
	struct head *head;

	if (!ptr)
		return;
	find();
	head = check(ptr);
	head->magic = 0;
	real_free(head->base);
}

void *realloc(void *ptr, size_t size)
{
	size_t held = ptr ? check(ptr)->size : 0;
	void *fresh = make(16, size);

	if (fresh && ptr)
		memcpy(fresh, ptr, held < size ? held : size);
	if (fresh)
		free(ptr);
	return fresh;
}

void *memalign(size_t alignment, size_t size)
{
	return make(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return make(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
	void *fresh = make(alignment, size);

	if (!fresh)
		return ENOMEM;
	*out = fresh;
	return 0;
}

void *valloc(size_t size)
{
	return make(4096, size);
}

size_t malloc_usable_size(void *ptr)
{
	return ptr ? check(ptr)->size : 0;
}

#endif
