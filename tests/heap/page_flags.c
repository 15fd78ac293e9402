/* page_flags.c CALL BYTES WAY: makes four large blocks, sets a flag on the pages inside of each,
 * frees them, and fills as much memory with small blocks. Prints "whole" where a forked child reads
 * in all of them what was written, and what /proc says of locked and undumped memory then. CALL:
 * dontfork, wipeonfork, dontdump, mlock, protect, hugepage. WAY: "libc"; "syscall"; "libc.so.6": by
 * dlsym in the handle of libc; "grown", "shrunk": by libc, and the block is moved or cut by
 * realloc. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS      4u
#define SMALL_BYTES 1000u
#define PAGE        4096u

static const char *way;
static char *blocks[BLOCKS];
static char *small[1 << 18];

static void advise(char *pages, size_t bytes, int advice)
{
	int (*found)(void *, size_t, int) = madvise;

	if (strcmp(way, "libc.so.6") == 0)
		*(void **)(void *)&found = dlsym(dlopen("libc.so.6", RTLD_NOW), "madvise");
	if (strcmp(way, "syscall") == 0 ? syscall(SYS_madvise, pages, bytes, advice)
					: found(pages, bytes, advice))
		abort();
}

static void set_flag(const char *call, char *pages, size_t bytes)
{
	if (strcmp(call, "dontfork") == 0)
		advise(pages, bytes, MADV_DONTFORK);
	else if (strcmp(call, "wipeonfork") == 0)
		advise(pages, bytes, MADV_WIPEONFORK);
	else if (strcmp(call, "dontdump") == 0)
		advise(pages, bytes, MADV_DONTDUMP);
	else if (strcmp(call, "hugepage") == 0)
		advise(pages, bytes, MADV_HUGEPAGE);
	else if (strcmp(call, "mlock") == 0 &&
		 (strcmp(way, "syscall") == 0 ? syscall(SYS_mlock, pages, bytes)
					      : mlock(pages, bytes)) != 0)
		exit(77);
	else if (strcmp(call, "protect") == 0 && mprotect(pages, bytes, PROT_NONE) != 0)
		abort();
}

/* The whole pages of a block that libc's own data does not lie in. */
static void flag_inside(const char *call, char *block, size_t bytes)
{
	char *first = (char *)(((uintptr_t)block + 64 + PAGE - 1) / PAGE * PAGE);

	set_flag(call, first, (size_t)(block + bytes - first) / PAGE * PAGE);
}

static int child_reads(size_t count)
{
	int status = 0;

	if (fork() == 0) {
		for (size_t i = 0; i < count; i++)
			for (size_t at = 0; at < SMALL_BYTES; at++)
				if (small[i][at] != (char)i)
					_exit(1);
		_exit(0);
	}
	wait(&status);
	return status == 0;
}

/* The resident kB of all mappings whose entry in smaps has a line with this begin and this word. */
static size_t count_kb(const char *begin, const char *word)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[1000];
	size_t size = 0, sum = 0;

	while (file && fgets(line, sizeof(line), file)) {
		(void)sscanf(line, "Rss: %zu kB", &size);
		if (strncmp(line, begin, strlen(begin)) == 0 && strstr(line, word))
			sum += size;
	}
	if (file)
		fclose(file);
	return sum;
}

int main(int count, char **words)
{
	size_t bytes = count == 4 ? strtoul(words[2], NULL, 0) : 0;
	size_t wanted = BLOCKS * bytes / SMALL_BYTES;

	if (!bytes || wanted > sizeof(small) / sizeof(small[0]))
		return 2;
	way = words[3];
	for (unsigned int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(bytes);
		memset(blocks[i], 1, bytes);
		flag_inside(words[1], blocks[i], bytes);
	}
	for (unsigned int i = 0; i < BLOCKS; i++) {
		if (strcmp(way, "grown") == 0)
			blocks[i] = realloc(blocks[i], 2 * bytes);
		if (strcmp(way, "shrunk") == 0)
			blocks[i] = realloc(blocks[i], bytes / 4);
		free(blocks[i]);
	}
	for (size_t i = 0; i < wanted; i++)
		memset(small[i] = malloc(SMALL_BYTES), (int)i, SMALL_BYTES);
	printf("%s\nlocked %zu kB\nundumped %zu kB\n", child_reads(wanted) ? "whole" : "broken",
	       count_kb("VmFlags:", " lo"), count_kb("VmFlags:", " dd"));
	return 0;
}
