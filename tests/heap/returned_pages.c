/* returned_pages.c KIND: makes memory that the kernel could put into huge pages, frees most of it
 * and waits for a purge. Prints resident and huge MB then, and seconds later (refilled: after
 * the next purge). It lives until its
 * stdin ends. small: 100,000 blocks, 1 in 20 is kept. refilled: the same, and all holes are filled
 * with huge pages after the purge, as khugepaged does. advised: large blocks with MADV_HUGEPAGE, as
 * NumPy's; then 40,000 small ones in the same memory, 1 in 100 is kept. large: large blocks, which
 * are kept. charged: no blocks, but pages that a huge page was returned in part of. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rollup.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define COUNT       100000u
#define KEPT        20u
#define LARGE_BYTES ((size_t)9 << 20)
#define LARGE_COUNT 16u
#define PAGE        4096u

static char *blocks[COUNT];
static char *large[LARGE_COUNT];

static size_t read_mb(const char *key)
{
	return (size_t)rollup_kb(key) >> 10;
}

static void show(void)
{
	printf("%zu %zu\n", read_mb("Rss:"), read_mb("AnonHugePages:"));
	fflush(stdout);
}

static void make_small(size_t count, size_t kept)
{
	uint32_t state = 1;

	for (size_t i = 0; i < count; i++) {
		size_t bytes = 512 + ((state = state * 1103515245u + 12345u) >> 8) % 1537;

		memset(blocks[i] = malloc(bytes), 1, bytes);
	}
	for (size_t i = 0; i < count; i++)
		if (i % kept)
			free(blocks[i]);
}

static void make_large(size_t count, int is_advised)
{
	for (size_t i = 0; i < count; i++) {
		char *pages = large[i] = malloc(LARGE_BYTES);

		pages += PAGE - (uintptr_t)pages % PAGE;
		if (is_advised)
			madvise(pages, LARGE_BYTES - PAGE, MADV_HUGEPAGE);
		memset(large[i], 1, LARGE_BYTES);
	}
}

/* The program's own mapping, not the heap's: one page of each huge page stays. */
static void unmap_parts(void)
{
	size_t bytes = 64u << 20, huge = 2u << 20;
	char *area = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	area += huge - (uintptr_t)area % huge;
	madvise(area, bytes, MADV_HUGEPAGE);
	memset(area, 1, bytes);
	for (size_t at = 0; at < bytes; at += huge)
		madvise(area + at + PAGE, huge - PAGE, MADV_DONTNEED);
	madvise(area, bytes, MADV_NOHUGEPAGE);
}

/* Until a purge has returned half, and no more comes: it takes one arena after another. */
static void wait_for_purge(size_t full_mb)
{
	size_t before = full_mb, now = read_mb("Rss:");

	for (int i = 0; i < 100 && (now > full_mb / 2 || now < before); i++) {
		nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
		before = now;
		now = read_mb("Rss:");
	}
}

/* For up to 8 s. */
static void wait_until_below(size_t mb)
{
	for (int i = 0; i < 80 && read_mb("Rss:") >= mb; i++)
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

/* By an instruction: nothing stands before it, as where another process makes the call. */
static void advise_unseen(char *begin, char *end, long advice)
{
#ifdef __x86_64__
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "a"(SYS_madvise), "D"(begin), "S"(end - begin), "d"(advice)
			 : "rcx", "r11", "memory");
#else
	exit(77 + 0 * (begin < end) + 0 * (int)advice);
#endif
}

/* All between the first and the last block that is kept: of each mapping in there. */
static void fill_holes(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	uintptr_t low = UINTPTR_MAX, high = 0;
	static unsigned long ranges[1000][2];
	size_t found = 0;
	char line[500];

	for (size_t i = 0; i < COUNT; i += KEPT) {
		low = (uintptr_t)blocks[i] < low ? (uintptr_t)blocks[i] : low;
		high = (uintptr_t)blocks[i] > high ? (uintptr_t)blocks[i] : high;
	}
	while (file && found < 1000 && fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx-%lx rw-p", &ranges[found][0], &ranges[found][1]) == 2 &&
		    ranges[found][1] > low && ranges[found][0] < high && !strchr(line, '/'))
			found++;
	for (size_t i = 0; i < found; i++) {
		advise_unseen((char *)ranges[i][0], (char *)ranges[i][1], MADV_HUGEPAGE);
		advise_unseen((char *)ranges[i][0], (char *)ranges[i][1], MADV_COLLAPSE);
	}
	if (file)
		fclose(file);
}

int main(int count, char **words)
{
	size_t full_mb;

	if (count != 2)
		return 2;
	if (strcmp(words[1], "small") == 0 || strcmp(words[1], "refilled") == 0)
		make_small(COUNT, KEPT);
	else if (strcmp(words[1], "charged") == 0)
		unmap_parts();
	else
		make_large(LARGE_COUNT, strcmp(words[1], "advised") == 0);
	full_mb = read_mb("Rss:");
	if (strcmp(words[1], "advised") == 0) {
		for (size_t i = 0; i < LARGE_COUNT; i++)
			free(large[i]);
		make_small(40000, 100);
	}
	if (strcmp(words[1], "large") != 0 && strcmp(words[1], "charged") != 0)
		wait_for_purge(full_mb);
	if (strcmp(words[1], "refilled") == 0)
		fill_holes();
	show();
	if (strcmp(words[1], "refilled") == 0)
		wait_until_below(45);
	else
		sleep(3);
	show();
	return getchar() == EOF ? 0 : 1;
}
