/* imports_mlockall.c -- a program that may call mlockall, and takes one large block. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int (*volatile lock)(int) = mlockall;

int main(void)
{
	char *block = malloc(64u << 20);

	if (!block)
		return 1;
	memset(block, 1, 64u << 20);
	return lock == NULL;
}
