/* beyond_machine.c -- asks for more memory than the machine has, and says what is refused. Nothing
 * of it is touched: where it is granted all the same, a program that fills it is ended by the
 * kernel. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

static void say(const char *what, int factor, void *block)
{
	printf("%s %d: %s\n", what, factor, block ? "block" : errno == ENOMEM ? "ENOMEM" : "NULL");
	free(block);
}

static void *aligned(size_t bytes)
{
	void *block = NULL;

	errno = posix_memalign(&block, 4096, bytes);
	return errno ? NULL : block;
}

static void *grown(size_t bytes)
{
	char *small = malloc(100);
	void *block;

	errno = 0;
	block = realloc(small, bytes);
	if (!block)
		free(small);
	return block;
}

int main(void)
{
	static const int factors[] = {2, 3, 16, 100};
	struct sysinfo machine;
	size_t all_bytes;

	if (sysinfo(&machine) != 0)
		return 1;
	all_bytes = (machine.totalram + machine.totalswap) * machine.mem_unit;
	say("malloc half", 1, malloc(all_bytes / 2));
	for (int i = 0; i < 4; i++) {
		size_t bytes = all_bytes * factors[i];

		errno = 0;
		say("malloc", factors[i], malloc(bytes));
		errno = 0;
		say("calloc", factors[i], calloc(1, bytes));
		say("realloc", factors[i], grown(bytes));
		say("posix_memalign", factors[i], aligned(bytes));
	}
	return 0;
}
