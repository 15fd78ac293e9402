/* healthy_stacks.c -- 40 threads with deep stacks, 80 MB that are neither heap nor growing. */
#include "patient.h"

enum { THREADS = 40 };

__attribute__((noinline)) static int recurse(int depth)
{
	volatile char frame[16 * 1024];

	memset((char *)frame, depth, sizeof(frame));
	return depth == 0 ? frame[0] : recurse(depth - 1) + frame[1];
}

static void *worker(void *unused)
{
	for (;;) {
		free(filled(1000 + (size_t)recurse(120) % 10));
		usleep(1000000);
	}
	return unused;
}

int main(void)
{
	void *state = filled(20 * MB);

	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, worker, NULL);
	}
	sleep(1);
	ready();
	while (goes_on(100))
		;
	free(state);
	return 0;
}
