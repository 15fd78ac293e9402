/* no_threads.c -- a user who may start no further thread fills 60 MB in small blocks and frees
 * them, three times, then makes a few for up to 15 s. Prints the MB that are resident. Returns 77
 * if it may not change its user. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BLOCKS 60000
#define BYTES  1000

static void *nothing(void *unused)
{
	return unused;
}

static long resident_mb(void)
{
	FILE *statm = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (statm && fscanf(statm, "%*s %ld", &pages) != 1)
		pages = -1;
	if (statm)
		fclose(statm);
	return pages / 256;
}

int main(void)
{
	static void *blocks[BLOCKS];
	const struct rlimit one = {1, 1};
	pthread_t thread;

	if (setresgid(65534, 65534, 65534) != 0 || setresuid(65533, 65533, 65533) != 0 ||
	    setrlimit(RLIMIT_NPROC, &one) != 0 || pthread_create(&thread, NULL, nothing, NULL) == 0)
		return 77;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < BLOCKS; i++) {
			blocks[i] = malloc(BYTES);
			memset(blocks[i], 1, BYTES);
		}
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
	}
	for (int second = 0; second < 15 && resident_mb() >= 20; second++) {
		for (int i = 0; i < 2 * BLOCKS; i++)
			free(malloc(BYTES));
		sleep(1);
	}
	printf("%ld\n", resident_mb());
	return 0;
}
