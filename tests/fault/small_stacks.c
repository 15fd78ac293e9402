/* small_stacks.c KB -- threads whose first call of malloc comes when the process may map hardly
 * anything more, KB at most: what they are refused must be refused with ENOMEM, and what they are
 * given must hold. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "mapped.h"

#define THREADS     4 /* as many new arenas as there is a reserve for */
#define STACK_BYTES (64 * 1024)

static pthread_barrier_t limited;
static _Atomic unsigned given, refused, odd;

static void *run(void *unused)
{
	static const size_t sizes[] = {10, 1000, 5000, 40000, 300000};

	pthread_barrier_wait(&limited);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned char *block;

		errno = 0;
		block = malloc(sizes[i]);
		if (block) {
			given++;
			memset(block, (int)i, sizes[i]);
			odd += block[sizes[i] - 1] != i;
			free(block);
		} else {
			refused++;
			odd += errno != ENOMEM;
		}
	}
	return unused;
}

int main(int argc, char **argv)
{
	static char out[1024];
	pthread_t threads[THREADS];
	struct rlimit limit;
	pthread_attr_t attr;

	if (argc < 2)
		return 2;
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	pthread_barrier_init(&limited, NULL, THREADS + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], &attr, run, NULL) != 0)
			return 3;
	/* What jemalloc has mapped and not given yet is used up, as far as that goes by allocating.
	 */
	limit.rlim_cur = limit.rlim_max = mapped_bytes() + strtoul(argv[1], NULL, 10) * 1024;
	if (setrlimit(RLIMIT_AS, &limit) != 0)
		return 4;
	for (size_t bytes = 1 << 20; bytes >= 1024; bytes /= 2)
		while (malloc(bytes))
			continue;
	pthread_barrier_wait(&limited);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d threads, %u given, %u refused, %u odd\n", THREADS, given, refused, odd);
	return 0;
}
