/* locks_itself.c -- locks all of its memory, as programs that keep secrets or must not wait for the
 * disk do, and works on: says what mlockall answered, and how many of 100 blocks it got. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(void)
{
	int answer = mlockall(MCL_CURRENT | MCL_FUTURE);
	int code = answer ? errno : 0;
	int given = 0;
	static char *blocks[100];

	for (int i = 0; i < 100; i++)
		if ((blocks[i] = malloc(5000))) {
			memset(blocks[i], 1, 5000);
			given++;
		}
	for (int i = 0; i < 100; i++)
		free(blocks[i]);
	printf("%s, %d blocks\n", answer ? strerror(code) : "locked", given);
	return 0;
}
