/* tests/fault/mapped.h -- for the programs that set a limit on their own address space. */
#ifndef MT_TESTS_MAPPED_H
#define MT_TESTS_MAPPED_H

#include <stdio.h>
#include <unistd.h>

/* What the process has mapped; 0: cannot be read. */
static inline size_t mapped_bytes(void)
{
	unsigned long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	if (statm && fscanf(statm, "%lu", &pages) != 1)
		pages = 0;
	if (statm)
		fclose(statm);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
