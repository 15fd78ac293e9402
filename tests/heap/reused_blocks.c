/* reused_blocks.c ROUNDS [lock] -- writes each page of 65 MB in blocks of 100 kB and frees them,
 * again and again; before, locks its memory by a function that it does not import. Prints how many
 * page faults that took. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define BLOCKS 650
#define BYTES  100000

int main(int argc, char **argv)
{
	static char *blocks[BLOCKS];
	static void *volatile last; /* libc keeps what lies below it */
	struct rusage usage;
	int (*lock)(int);

	*(void **)&lock = dlsym(RTLD_DEFAULT, "mlockall");
	if (argc > 2 && lock(MCL_CURRENT | MCL_FUTURE) != 0)
		return 77;
	for (int round = argc > 1 ? atoi(argv[1]) : 1; round > 0; round--) {
		for (int i = 0; i < BLOCKS; i++) {
			blocks[i] = malloc(BYTES);
			if (!blocks[i])
				return 1;
			for (int at = 0; at < BYTES; at += 4096)
				blocks[i][at] = (char)round;
		}
		last = last ? last : malloc(3000);
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld\n", usage.ru_minflt);
	return 0;
}
