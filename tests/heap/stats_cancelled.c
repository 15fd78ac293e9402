/* stats_cancelled.c -- 50 threads, each cancelled before it calls malloc_stats, which is no
 * cancellation point: each prints to stderr all the same. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

static void *tell(void *unused)
{
	malloc_stats();
	return unused;
}

int main(void)
{
	pthread_t thread;

	free(malloc(2000000));
	free(malloc(20000000));
	for (int i = 0; i < 50; i++) {
		if (pthread_create(&thread, NULL, tell, NULL))
			return 1;
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	return 0;
}
