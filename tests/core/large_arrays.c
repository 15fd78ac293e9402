/* large_arrays.c -- a program whose memory is its static arrays: 64 MB of them, touched in main,
 * and a heap that never grows. Waits at most 10 s for a second thread, by making and freeing one
 * block again and again; prints how many threads it has. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS 2000

static char arrays[64 << 20];

static int threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	int count = -2; /* . and .. */

	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count;
}

int main(void)
{
	void *volatile block;

	memset(arrays, 1, sizeof(arrays));
	for (int round = 0; round < 1000 && threads() < 2; round++) {
		for (int i = 0; i < CALLS; i++) {
			block = malloc(2000);
			free(block);
		}
		usleep(10000);
	}
	printf("%d threads\n", threads());
	return 0;
}
