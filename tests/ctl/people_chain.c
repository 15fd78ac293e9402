/* people_chain.c -- a family without end: each process has one child, DEPTH times. The last one
 * says "ready"; all wait until they are killed. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int left = argc == 2 ? atoi(argv[1]) : 0;

	while (left-- > 0) {
		pid_t child = fork();

		if (child < 0)
			return 1;
		if (child > 0)
			for (;;)
				pause();
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
