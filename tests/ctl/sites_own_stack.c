/* sites_own_stack.c -- the first blocks of a forked child, which start the shim's thread there.
 * Above the mapping that the shim takes for a stack of its own nothing can be read. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)
#define COUNT       64

int main(void)
{
	void *blocks[COUNT];
	int status = 1;
	pid_t pid;

	free(malloc(100));
	for (int i = 0; i < COUNT; i++)
		blocks[i] = mmap(NULL, STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* The kernel takes the highest hole that is large enough. */
	munmap(blocks[COUNT / 2], STACK_BYTES);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 100000; i++)
			free(malloc(700));
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("child: status %d\n", status);
	return 0;
}
