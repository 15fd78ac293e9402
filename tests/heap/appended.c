/* appended.c -- a buffer that grows by 16 bytes to 1.3 MB, as a string that is appended to. Prints
 * the CPU time in ms. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STEP  16u
#define BYTES 1300000u

int main(void)
{
	char *text = NULL;

	for (size_t bytes = STEP; bytes < BYTES; bytes += STEP) {
		text = realloc(text, bytes);
		if (!text)
			return 1;
		text[bytes - 1] = 1;
	}
	free(text);
	printf("%ld\n", clock() / (CLOCKS_PER_SEC / 1000));
	return 0;
}
