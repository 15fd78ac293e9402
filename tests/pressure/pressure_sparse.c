/* pressure_sparse.c -- blocks of which the program touches little are grown and shrunk by realloc.
 * Prints the largest resident size in MB.
 *
 *   pressure_sparse KIND    malloc, calloc, memalign: one block of 1,000 MB, 1 MB touched;
 *                           many: 200 blocks of 1.5 MB; smaller: 1,500 of 200 kB;
 *                           refused: as malloc, without mremap(2) */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define MB   ((size_t)1 << 20)
#define MANY 1500u

/* Every mremap of the process fails with EPERM, as in some sandboxes. */
static int refuse_mremap(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static char *make(const char *kind)
{
	if (strcmp(kind, "calloc") == 0)
		return calloc(1000, MB);
	return strcmp(kind, "memalign") == 0 ? memalign(64, 1000 * MB) : malloc(1000 * MB);
}

static void check(const char *block, int is_zeroed)
{
	for (size_t at = 0; at < MB; at++)
		if (block[at] != 1)
			exit(3);
	if (block[500 * MB + 5000] != 2 || (is_zeroed && block[500 * MB + 9000]))
		exit(4);
}

static void one(const char *kind)
{
	int is_zeroed = strcmp(kind, "calloc") == 0;
	char *block = make(kind);

	memset(block, 1, MB);
	block[500 * MB + 5000] = 2;
	block = realloc(block, 1500 * MB);
	check(block, is_zeroed);
	block = reallocarray(block, 2000, MB);
	check(block, is_zeroed);
	block = realloc(block, 600 * MB);
	block = realloc(block, 3000 * MB);
	check(block, is_zeroed);
}

static void many(unsigned int count, size_t first, size_t last)
{
	static char *blocks[MANY];

	for (size_t size = first; size <= last; size *= 2)
		for (unsigned int i = 0; i < count; i++) {
			blocks[i] = realloc(blocks[i], size);
			if (size == first)
				blocks[i][5000] = blocks[i][first - 1] = (char)i;
			if (blocks[i][5000] != (char)i || blocks[i][first - 1] != (char)i)
				exit(5);
		}
}

/* Not ru_maxrss, which begins with that of the program before exec. */
static long peak_kb(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	long peak = -1;

	while (status && fgets(line, sizeof(line), status) &&
	       sscanf(line, "VmHWM: %ld", &peak) != 1)
		continue;
	return peak;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";

	/* a huge page for each touched one would say nothing about realloc */
	(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	if (strcmp(kind, "refused") == 0 && refuse_mremap())
		return 77;
	if (strcmp(kind, "many") == 0)
		many(200, 3 * MB / 2, 12 * MB);
	else if (strcmp(kind, "smaller") == 0)
		many(MANY, 200000, 800000);
	else
		one(kind);
	printf("%ld\n", peak_kb() / 1024);
	return 0;
}
