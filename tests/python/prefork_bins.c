/* A server whose fast bins are full when it forks its workers: 20 MB of small blocks, half of them
 * free. Says the workers' pids; they wait for their end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS  200000
#define WORKERS 2

int main(void)
{
	static char *blocks[BLOCKS];

	setvbuf(stdout, NULL, _IONBF, 0); /* its buffer would be a block that merges them */
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = memset(malloc(100), 1, 100);
	for (int i = 0; i < BLOCKS; i += 2)
		free(blocks[i]);
	for (int i = 0; i < WORKERS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (int k = 0; k < 100; k++)
				blocks[k] = malloc(40);
			sleep(60);
			_exit(0);
		}
		printf("%d ", (int)pid);
	}
	puts("");
	sleep(60);
	return 0;
}
