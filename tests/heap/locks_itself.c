/* locks_itself.c -- locks all of its memory, as programs that keep secrets or must not wait for the
 * disk do, and works on: says what mlockall answered, and how many of 100 blocks it got. With an
 * argument it then takes so many MB in blocks of 1,000 bytes, and prints its line VmLck of
 * /proc/self/status. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int print_locked(size_t mb)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];

	for (size_t i = 0; i < mb * 1000000 / 1000; i++) {
		char *block = malloc(1000);

		if (!block)
			return 3;
		memset(block, 1, 1000);
	}
	while (status && fgets(line, sizeof(line), status))
		if (strncmp(line, "VmLck:", 6) == 0)
			fputs(line, stdout);
	return 0;
}

int main(int argc, char **argv)
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
	return argc > 1 ? print_locked(strtoul(argv[1], NULL, 10)) : 0;
}
