/* versions_between.c -- takes a block that wakes the process up. Linked by lld, whose tables of
 * versions lie between the symbols and their names. SHIFT: that many more symbols, so that the
 * tables lie otherwise. */
#include <glob.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static void *volatile used[] = {
	(void *)pow,       (void *)glob,  (void *)pthread_create,
	(void *)getrandom, (void *)statx, (void *)gettid,
#if SHIFT > 0
	(void *)getpid,
#endif
#if SHIFT > 1
	(void *)getuid,
#endif
#if SHIFT > 2
	(void *)getgid,
#endif
};

int main(void)
{
	char *block = malloc(3u << 20);

	if (!block || !used[0])
		return 1;
	memset(block, 1, 3u << 20);
	puts("goes on");
	return 0;
}
