/* slow_leak.c -- leaks 30 MB at once, then 1 MB a second for 16 s, in blocks of 1,000 bytes. Prints
 * the MB leaked so far each second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void leak(int blocks)
{
	static void *volatile last;

	for (int i = 0; i < blocks; i++) {
		last = malloc(1000);
		memset(last, 1, 1000);
	}
}

int main(void)
{
	leak(30000);
	for (int step = 1; step <= 160; step++) {
		leak(100);
		usleep(100000);
		if (step % 10 == 0)
			printf("%d\n", 30 + step / 10);
		fflush(stdout);
	}
	sleep(2);
	return 0;
}
