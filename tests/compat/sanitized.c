/* Breaks one rule of memory, named by its argument, for a sanitizer to report; or none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	const char *fault = argc > 1 ? argv[1] : "none";
	char *volatile block = malloc(100);
	char *big = malloc(20u << 20);

	memset(block, 1, 100);
	memset(big, 1, 20u << 20);
	if (strcmp(fault, "overflow") == 0)
		block[100] = 1;
	free(big);
	free(block);
	if (strcmp(fault, "use_after_free") == 0)
		printf("%d\n", block[5]);
	if (strcmp(fault, "double_free") == 0)
		free(block);
	puts("ends");
	return 0;
}
