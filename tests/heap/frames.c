/* Imports mlockall, holds 8 MB in small blocks, and takes, fills and frees a buffer of 700 kB 200
 * times. Prints the page faults of that. SETS, and SETS_LATE for
 * later: a value for M_MMAP_THRESHOLD. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

int (*volatile lock)(int) = mlockall;

int main(void)
{
	struct rusage before, after;

#ifdef SETS
	mallopt(M_MMAP_THRESHOLD, SETS);
#endif

	for (int i = 0; i < 8000; i++) {
		char *kept = malloc(1000);

		if (!kept)
			return 1;
		memset(kept, 1, 1000);
	}
#ifdef SETS_LATE
	mallopt(M_MMAP_THRESHOLD, SETS_LATE);
#endif
	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < 200; i++) {
		char *frame = malloc(700000);

		if (!frame)
			return 1;
		memset(frame, i, 700000);
		free(frame);
	}
	getrusage(RUSAGE_SELF, &after);
	printf("%ld\n", after.ru_minflt - before.ru_minflt);
	return lock == NULL;
}
