/* own_mappings.c -- imports mlockall, so that libc's malloc serves; takes 150 MB of blocks and
 * frees all but the last ones; maps 150 MB past malloc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCKS      150000
#define BLOCK_BYTES 1000
#define MAPPED      ((size_t)150 << 20)

int (*volatile lock)(int) = mlockall;

int main(void)
{
	static void *blocks[BLOCKS];
	char *mapped =
		mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BLOCK_BYTES);
		memset(blocks[i], 1, BLOCK_BYTES);
	}
	for (size_t i = 0; i < BLOCKS - 1000; i++)
		free(blocks[i]);
	memset(mapped, 1, MAPPED);
	puts("ready");
	fflush(stdout);
	return sleep(60) != 0;
}
