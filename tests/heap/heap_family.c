/* heap_family.c -- every call of the heap family with ordinary and with hostile arguments. Prints
 * one line a case: what came back, errno, and whether what was promised about memory holds. Sizes
 * that an allocator may choose are not printed, so the transcript must be the same with and without
 * the shim wherever libc's answer is the standard's. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A reallocation that fails leaves its block alone, which is what is tested; gcc sees only "used
 * after". */
#pragma GCC diagnostic ignored "-Wuse-after-free"

static const char *errno_name(int code)
{
	return code == 0 ? "0" : code == ENOMEM ? "ENOMEM" : code == EINVAL ? "EINVAL" : "another";
}

/* One block: null or not, aligned or not, wholly usable or not. It is filled to its usable end, and
 * freed. */
static void show(const char *call, void *block, size_t alignment, size_t bytes)
{
	int code = errno;

	if (!block) {
		printf("%s: NULL errno=%s\n", call, errno_name(code));
		return;
	}
	size_t usable = malloc_usable_size(block);
	memset(block, 0x5a, usable);
	printf("%s: block aligned=%d large-enough=%d\n", call, (uintptr_t)block % alignment == 0,
	       usable >= bytes);
	free(block);
}

#define SHOW(alignment, bytes, call) (errno = 0, show(#call, (call), (alignment), (bytes)))

static int all_zero(const unsigned char *block, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (block[i])
			return 0;
	return 1;
}

static void sizes(void)
{
	static const size_t bytes[] = {1,    15,   16,    17,      255,
				       4096, 4097, 65536, 1 << 20, (32 << 20) + 3};

	SHOW(8, 0, malloc(0));
	for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		SHOW(bytes[i] < 16 ? 8 : 16, bytes[i], malloc(bytes[i]));
	SHOW(8, 0, calloc(0, 8));
	SHOW(8, 0, calloc(8, 0));
	for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		/* A used block first, so that a recycled one would show. */
		void *dirty = malloc(bytes[i]);
		memset(dirty, 0xff, bytes[i]);
		free(dirty);
		unsigned char *block = calloc(1, bytes[i]);
		printf("calloc of %zu is zero: %d\n", bytes[i], all_zero(block, bytes[i]));
		free(block);
	}
}

static void too_large(void)
{
	volatile size_t most = PTRDIFF_MAX, over = (size_t)PTRDIFF_MAX + 1, all = SIZE_MAX,
			half = SIZE_MAX / 2 + 2;
	void *block = malloc(10), *out = (void *)(uintptr_t)0x1234;

	memcpy(block, "untouched", 10);
	SHOW(8, 0, malloc(most));
	SHOW(8, 0, malloc(over));
	SHOW(8, 0, malloc(all));
	SHOW(8, 0, malloc(all - 15));
	SHOW(8, 0, calloc(half, 2));
	SHOW(8, 0, calloc(2, half));
	SHOW(8, 0, calloc(1, over));
	SHOW(8, 0, calloc(all, all));
	SHOW(8, 0, realloc(block, over));
	SHOW(8, 0, realloc(block, all));
	SHOW(8, 0, reallocarray(block, half, 2));
	SHOW(8, 0, reallocarray(block, all, all));
	SHOW(8, 0, reallocarray(NULL, half, 2));
	printf("after failures the block is %s\n", (char *)block);
	SHOW(64, 0, aligned_alloc(64, all - 63));
	SHOW(64, 0, memalign(64, all));
	SHOW(4096, 0, valloc(all));
	SHOW(4096, 0, pvalloc(all));
	int code = posix_memalign(&out, 64, all);
	printf("posix_memalign too large: %s out=%p\n", errno_name(code), out);
	free(block);
}

static void alignments(void)
{
	static const size_t bad[] = {0,  1,  2,   3,    4,        6,
				     12, 24, 100, 4097, SIZE_MAX, SIZE_MAX / 2 + 2};
	static const size_t good[] = {8, 16, 32, 64, 4096, 8192, 65536, 1 << 21};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		void *out = (void *)(uintptr_t)0x1234;
		int code = posix_memalign(&out, bad[i], 100);
		printf("posix_memalign(%zu): %s out=%p\n", bad[i], errno_name(code), out);
	}
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		void *out = NULL;
		int code = posix_memalign(&out, good[i], 100);
		printf("posix_memalign(%zu): %s aligned=%d\n", good[i], errno_name(code),
		       (uintptr_t)out % good[i] == 0);
		free(out);
		SHOW(good[i], 3 * good[i], aligned_alloc(good[i], 3 * good[i]));
		SHOW(good[i], 5, memalign(good[i], 5));
		SHOW(good[i], 0, memalign(good[i], 0));
		SHOW(good[i], 0, aligned_alloc(good[i], 0));
	}
	void *out = (void *)(uintptr_t)0x1234;
	int code = posix_memalign(&out, 64, 0);
	printf("posix_memalign of 0: %s\n", errno_name(code));
	free(out);
	SHOW(4096, 0, valloc(0));
	SHOW(4096, 1, valloc(1));
	SHOW(4096, 4097, valloc(4097));
	SHOW(4096, 4096, pvalloc(1));
	SHOW(4096, 8192, pvalloc(4097));
}

static void resizing(void)
{
	static const size_t steps[] = {1,       100,      50,      4000, 5000, 100000,
				       3 << 20, 64 << 20, 1 << 20, 10,   2};
	unsigned char *block = NULL;
	size_t before = 0;

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		block = realloc(block, steps[i]);
		size_t same = 0, most = before < steps[i] ? before : steps[i];
		while (same < most && block[same] == (unsigned char)(same * 7))
			same++;
		printf("realloc %zu -> %zu: content kept=%d\n", before, steps[i], same == most);
		for (size_t at = 0; at < steps[i]; at++)
			block[at] = (unsigned char)(at * 7);
		before = steps[i];
	}
	errno = 0;
	void *gone = realloc(block, 0);
	printf("realloc to 0: %s\n", gone ? "block" : "NULL");
	free(gone);
	SHOW(16, 24, reallocarray(NULL, 3, 8));
	SHOW(16, 24, realloc(NULL, 24));
	SHOW(8, 0, realloc(NULL, 0));
}

static void keeps_errno(void)
{
	void *small = malloc(10), *large = malloc(64 << 20);

	errno = 4711;
	free(small);
	printf("free keeps errno: %d\n", errno == 4711);
	free(large);
	printf("free of a large block keeps errno: %d\n", errno == 4711);
	free(NULL);
	printf("free(NULL) keeps errno: %d\n", errno == 4711);
	printf("malloc_usable_size(NULL): %zu errno kept: %d\n", malloc_usable_size(NULL),
	       errno == 4711);
	small = malloc(100);
	printf("a malloc that succeeds keeps errno: %d\n", errno == 4711);
	free(small);
}

/* ---- odd arguments: which are refused, and with which errno, is libc's own choice, and differs
 * between its versions ---- */

static const size_t odd_alignments[] = {
	0,
	1,
	2,
	3,
	4,
	8,
	16,
	24,
	32,
	48,
	64,
	100,
	4096,
	4097,
	12288,
	SIZE_MAX / 4 + 1,
	SIZE_MAX / 2,
	SIZE_MAX / 2 + 1,
	SIZE_MAX / 2 + 2,
	SIZE_MAX,
};
static const size_t odd_sizes[] = {
	0,
	1,
	7,
	8,
	100,
	4095,
	4096,
	4097,
	PTRDIFF_MAX - 4096,
	PTRDIFF_MAX,
	(size_t)PTRDIFF_MAX + 1,
	SIZE_MAX - 4096,
	SIZE_MAX,
};

static void show_odd(const char *name, size_t one, size_t other, void *block, size_t alignment)
{
	int code = errno;
	size_t power = 1;

	while (power < alignment && power <= SIZE_MAX / 4)
		power <<= 1;
	printf("%s(%zu, %zu): %s aligned=%d errno=%s\n", name, one, other, block ? "block" : "NULL",
	       !block || (uintptr_t)block % power == 0, errno_name(code));
	free(block);
}

static void odd_pair(size_t alignment, size_t size)
{
	void *out = (void *)(uintptr_t)0x1234;
	int code;

	errno = 0;
	show_odd("memalign", alignment, size, memalign(alignment, size), alignment);
	errno = 0;
	show_odd("aligned_alloc", alignment, size, aligned_alloc(alignment, size), alignment);
	errno = 0;
	code = posix_memalign(&out, alignment, size);
	printf("posix_memalign(%zu, %zu): %s errno=%s out %s\n", alignment, size, errno_name(code),
	       errno_name(errno),
	       code ? (out == (void *)(uintptr_t)0x1234 ? "untouched" : "written") : "made");
	if (code == 0)
		free(out);
}

static void odd_size(size_t size)
{
	void *block = malloc(10);
	void *fresh;

	errno = 0;
	show_odd("malloc", 0, size, malloc(size), 8);
	errno = 0;
	show_odd("calloc", 1, size, calloc(1, size), 8);
	errno = 0;
	show_odd("calloc", 3, size, calloc(3, size), 8);
	errno = 0;
	show_odd("valloc", 0, size, valloc(size), 4096);
	errno = 0;
	show_odd("pvalloc", 0, size, pvalloc(size), 4096);
	errno = 0;
	fresh = realloc(block, size);
	if (fresh || size == 0)
		block = NULL;
	show_odd("realloc", 10, size, fresh, 8);
	block = block ? block : malloc(10);
	errno = 0;
	fresh = reallocarray(block, 3, size);
	if (fresh || size == 0)
		block = NULL;
	show_odd("reallocarray", 3, size, fresh, 8);
	free(block);
}

static void odd(void)
{
	for (unsigned s = 0; s < sizeof(odd_sizes) / sizeof(odd_sizes[0]); s++) {
		odd_size(odd_sizes[s]);
		for (unsigned a = 0; a < sizeof(odd_alignments) / sizeof(odd_alignments[0]); a++)
			odd_pair(odd_alignments[a], odd_sizes[s]);
	}
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		odd();
		return 0;
	}
	setvbuf(stdout, NULL, _IONBF, 0);
	sizes();
	too_large();
	alignments();
	resizing();
	keeps_errno();
	return 0;
}
