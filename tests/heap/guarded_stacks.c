/* guarded_stacks.c -- makes 1,000 stacks by aligned_alloc, each with a guard page, and then takes,
 * fills and frees a block of 1 MB 1,000 times. Prints the page faults of that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define STACKS      1000
#define STACK_BYTES ((size_t)64 << 10)
#define PAGE_BYTES  4096
#define BYTES       1000000
#define ROUNDS      1000

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

int main(void)
{
	static char *stacks[STACKS];
	long before;

	for (int i = 0; i < STACKS; i++) {
		stacks[i] = aligned_alloc(PAGE_BYTES, STACK_BYTES);
		if (!stacks[i] || mprotect(stacks[i], PAGE_BYTES, PROT_NONE) != 0)
			return 1;
	}
	before = faults();
	for (int i = 0; i < ROUNDS; i++) {
		char *block = malloc(BYTES);

		if (!block)
			return 1;
		memset(block, 1, BYTES);
		free(block);
	}
	printf("%ld\n", faults() - before);
	for (int i = 0; i < STACKS; i++)
		mprotect(stacks[i], PAGE_BYTES, PROT_READ | PROT_WRITE);
	return 0;
}
