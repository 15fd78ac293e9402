/* absurd.c -- asks for more than there is in any machine, each way twice, then grows to 300 MB and
 * says whether it was noticed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned threads_count(void)
{
	DIR *folder = opendir("/proc/self/task");
	unsigned count = 0;

	for (struct dirent *entry; folder && (entry = readdir(folder));)
		count += entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	return count;
}

int main(void)
{
	volatile size_t half = SIZE_MAX / 2 + 1;
	void *block = NULL;
	int refused = 0;

	for (int i = 0; i < 2; i++) {
		refused += malloc(half) == NULL;
		refused += calloc(half, 1) == NULL;
		refused += posix_memalign(&block, 64, half) != 0;
	}
	for (int i = 0; i < 300; i++)
		memset(malloc(1 << 20), 1, 1 << 20);
	for (int i = 0; i < 200 && threads_count() < 2; i++) {
		memset(malloc(1 << 20), 1, 1 << 20);
		usleep(20000);
	}
	printf("%d refused, %u threads\n", refused, threads_count());
	return 0;
}
