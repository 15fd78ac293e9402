/* takes_address.c -- takes the address of malloc, allocates by it, prints "ready" and waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	/* by code: an initialised variable would get the address of the library's function */
	void *(*volatile make)(size_t) = malloc;
	char *block = make(1 << 20);

	memset(block, 1, 1 << 20);
	puts("ready");
	fflush(stdout);
	(void)getchar();
	free(block);
	return 0;
}
